-- ff_purge_execution: delete an ended execution, and all that belongs to it, when its own retention is over.
--
-- Keys      the execution
-- Command   Purge
-- Reply     what was done, public state ('' when there is no such execution any more)
-- Keeps     what has not ended, or not long enough ago, stays; the feed tells of it for a day longer

ff.operation('ff_purge_execution', 'Purge', function(space, command)
  local run = space:find(command.execution_id)
  if not run then return 'not_found_cleaned', '' end
  if run.lifecycle_phase ~= 'terminal' then return 'not_terminal', run.public_state end
  if run.completed_at + run.retention_ms > space.now then return 'not_yet_due', run.public_state end
  space:drop(run)
  space:emit('purge', run.execution_id, run.total_attempt_count, run.namespace)
  return 'purged', ''
end, {'allow-oom'})
