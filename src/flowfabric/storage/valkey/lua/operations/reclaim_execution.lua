-- ff_reclaim_execution (T11, T12): by reclaim grant, a new attempt for work whose lease is gone.
--
-- Keys      the execution
-- Command   Reclaim
-- Reply     the task (tasks.lua)
-- Keeps     at its cap it fails instead, whoever asks; only the worker that was promised it passes

ff.operation('ff_reclaim_execution', 'Reclaim', function(space, command)
  local run = space:execution(command.execution_id)
  if not ff.lease_lost(run) then ff.refuse('execution_not_reclaimable') end
  if ff.at_reclaim_cap(run, command.max_reclaim_count) then
    ff.end_at_cap(space, run)
    ff.refuse_and_keep('max_retries_exhausted', {ff.digits(ff.reclaim_cap(run, command.max_reclaim_count))})
  end
  ff.use_grant(space, run, command.worker_id, 'reclaim')
  return unpack(ff.task_parts(space, ff.reclaim(space, run, command.attempt_id, ff.lease_of(command)), {}))
end)
