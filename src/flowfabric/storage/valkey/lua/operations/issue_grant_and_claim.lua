-- ff_issue_grant_and_claim (T5, T6): an operator takes one execution by name.
--
-- Keys      the execution
-- Command   GrantAndClaim
-- Reply     the task (tasks.lua)
-- Keeps     what is promised to a worker is not taken from it

ff.operation('ff_issue_grant_and_claim', 'GrantAndClaim', function(space, command)
  local run = space:execution(command.execution_id)
  if run.lifecycle_phase ~= 'runnable' then ff.refuse('execution_not_eligible') end
  if ff.granted(run, space.now) then ff.refuse('grant_already_exists') end
  if run.attempt_state == 'attempt_interrupted' then
    local lease = ff.lease_of(command, 'issue_grant_and_claim_resumed')
    return unpack(ff.task_parts(space, ff.resume_attempt(space, run, lease), {}))
  end
  if run.eligibility_state ~= 'eligible_now' then ff.refuse('execution_not_in_eligible_set') end
  local lease = ff.lease_of(command, 'issue_grant_and_claim')
  return unpack(ff.task_parts(space, ff.new_attempt(space, run, command.attempt_id, lease), {}))
end)
