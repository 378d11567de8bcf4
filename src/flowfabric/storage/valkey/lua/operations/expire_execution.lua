-- ff_expire_execution (T14, T25): an attempt timeout is a failure that may be retried; a deadline ends the execution.
--
-- Keys      the execution
-- Command   ExpireExecution
-- Reply     what was done, public state ('' when there is no such execution)
-- Keeps     nothing happens before its time

ff.operation('ff_expire_execution', 'ExpireExecution', function(space, command)
  local run, reason = space:find(command.execution_id), command.reason
  if not run then return 'not_found_cleaned', '' end
  if run.lifecycle_phase == 'terminal' then return 'already_terminal', run.public_state end
  local attempt_timeout = reason == 'attempt_timeout'
  local due_at = attempt_timeout and run.attempt_deadline_at or run.execution_deadline_at
  if due_at == 0 or due_at > space.now then return 'not_yet_due', run.public_state end
  if attempt_timeout and ff.may_retry(run.policy, 'timeout', run.retry_count) then
    local retried = ff.schedule_retry(space, run, {actor = 'timer', reason = reason, category = 'timeout'})
    return 'retry_scheduled', retried.public_state
  end
  local category = attempt_timeout and 'timeout' or ''
  local failure = {failure_reason = reason, failure_category = category}
  local ended = ff.finish(space, run, ff.T.EXPIRED, 'timer', reason, failure, failure, 'expired:' .. reason)
  return 'expired', ended.public_state
end)
