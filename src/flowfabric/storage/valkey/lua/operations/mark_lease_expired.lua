-- ff_mark_lease_expired (T8): note that a lease has run out, if it has.
--
-- Keys      the execution
-- Command   MarkLeaseExpired
-- Reply     "marked" | "satisfied", why nothing had to be done
-- Keeps     a lease that still lives is never taken

-- Why there is no lease to take, or nil.
function ff.no_lease(run)
  if not run then return 'execution_not_found' end
  if run.lifecycle_phase ~= 'active' then return 'not_active' end
  if run.ownership_state == 'lease_expired_reclaimable' then return 'already_expired' end
  return run.ownership_state == 'lease_revoked' and 'already_revoked' or nil
end

ff.operation('ff_mark_lease_expired', 'MarkLeaseExpired', function(space, command)
  local run = space:find(command.execution_id)
  local why = ff.no_lease(run)
  if why then return 'satisfied', why end
  if run.lease_expires_at > space.now then return 'satisfied', 'not_yet_expired' end
  ff.lose_lease(space, run, ff.T.LEASE_EXPIRED, 'expired', 'timer')
  return 'marked'
end)
