-- ff_claim_resumed_execution (T6): an interrupted attempt goes on, by grant.
--
-- Keys      the execution
-- Command   ClaimResumed
-- Reply     the task (tasks.lua)
-- Keeps     only the worker that was promised it passes; a promise that is too old is removed

ff.operation('ff_claim_resumed_execution', 'ClaimResumed', function(space, command)
  local run = space:execution(command.execution_id)
  if run.lifecycle_phase ~= 'runnable' then ff.refuse('execution_not_leaseable') end
  if run.attempt_state ~= 'attempt_interrupted' then ff.refuse('not_a_resumed_execution') end
  if run.eligibility_state ~= 'eligible_now' then ff.refuse('execution_not_leaseable') end
  ff.use_grant(space, run, command.worker_id, 'resume')
  return unpack(ff.task_parts(space, ff.resume_attempt(space, run, ff.lease_of(command)), {}))
end)
