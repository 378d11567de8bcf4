-- ff_issue_claim_grant (T4): promise eligible work to one worker; unused, the promise leaves nothing to repair.
--
-- Keys      the execution, the lane records
-- Command   IssueClaimGrant; worker_capabilities are sorted, or {refusal = {code, text, field, detail...}}
-- Reply     execution id, lane, until when the grant holds
-- Keeps     at most one live grant on an execution; none in a paused lane, none to a worker that cannot run it

ff.operation('ff_issue_claim_grant', 'IssueClaimGrant', function(space, command)
  local run = space:execution(command.execution_id)
  if run.lifecycle_phase ~= 'runnable' or run.eligibility_state ~= 'eligible_now' then
    ff.refuse('execution_not_eligible')
  end
  local lane = space:get('lane', run.lane_id)
  if lane and lane.paused_at ~= 0 then
    ff.refuse('execution_not_eligible', {}, '', 'lane ' .. run.lane_id .. ' is paused')
  end
  return ff.grant(space, run, command, run.attempt_state == 'attempt_interrupted' and 'resume' or 'claim')
end)
