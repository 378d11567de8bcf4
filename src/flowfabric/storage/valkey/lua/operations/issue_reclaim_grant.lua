-- ff_issue_reclaim_grant (T10): promise work whose lease is gone to one worker.
--
-- Keys      the execution
-- Command   IssueReclaimGrant; worker_capabilities are sorted, or {refusal = {code, text, field, detail...}}
-- Reply     execution id, lane, until when the grant holds
-- Keeps     at most one live grant on an execution; none to a worker that cannot run it

ff.operation('ff_issue_reclaim_grant', 'IssueReclaimGrant', function(space, command)
  local run = space:execution(command.execution_id)
  if not ff.lease_lost(run) then ff.refuse('execution_not_reclaimable') end
  return ff.grant(space, run, command, 'reclaim')
end)
