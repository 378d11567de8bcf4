-- ff_revoke_lease (T9): the holder loses its lease; the work can be claimed again.
--
-- Keys      the execution
-- Command   RevokeLease
-- Reply     "revoked", lease id, lease epoch | "satisfied", why nothing had to be done
-- Keeps     an expected lease that is not the current one revokes nothing

local LOST = {lease_revoked = 'already_revoked', lease_expired_reclaimable = 'already_expired'}

ff.operation('ff_revoke_lease', 'RevokeLease', function(space, command)
  local run, row = space:execution(command.execution_id), ff.T.LEASE_REVOKED
  if run.lifecycle_phase ~= 'active' then return 'satisfied', 'no_active_lease' end
  if LOST[run.ownership_state] then return 'satisfied', LOST[run.ownership_state] end
  if command.expected_lease_id ~= '' and command.expected_lease_id ~= run.current_lease_id then
    ff.refuse('stale_lease', {}, 'expected_lease_id', 'the lease is another one by now')
  end
  local revoked = ff.move(run, row, space.now, {
    lease_revoked_at = space.now, lease_revoke_reason = command.reason, lease_end = 'revoked',
  })
  space:put_execution(revoked, row.event, run.public_state, command.actor, command.reason, run)
  return 'revoked', run.current_lease_id, run.current_lease_epoch
end)
