-- ff_claim_execution (T5): a new attempt, by grant.
--
-- Keys      the execution
-- Command   ClaimGranted
-- Reply     the task (tasks.lua)
-- Keeps     only the worker that was promised it passes; a promise that is too old is removed

ff.operation('ff_claim_execution', 'ClaimGranted', function(space, command)
  local run = space:execution(command.execution_id)
  if run.eligibility_state ~= 'eligible_now' then ff.refuse('execution_not_leaseable') end
  if run.attempt_state == 'attempt_interrupted' then ff.refuse('use_claim_resumed_execution') end
  ff.use_grant(space, run, command.worker_id, 'claim')
  return unpack(ff.task_parts(space, ff.new_attempt(space, run, command.attempt_id, ff.lease_of(command)), {}))
end)
