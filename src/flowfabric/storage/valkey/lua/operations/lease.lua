-- ff_renew_lease (T7): the same lease, for longer. Not told in the history.
--
-- Keys      the execution
-- Command   Renew
-- Reply     until when the lease holds now
-- Keeps     only the holder of a live lease renews it

ff.operation('ff_renew_lease', 'Renew', function(space, command)
  local run = ff.hold(space, command)
  if command.attempt_index and command.attempt_index ~= run.attempt.index then ff.refuse('stale_lease') end
  local expires_at = space.now + command.lease_ttl_ms
  space:touch(ff.replace(run, {
    lease_expires_at = expires_at, lease_last_renewed_at = space.now,
    lease_renewal_deadline = space.now + math.floor(command.lease_ttl_ms * 2 / 3),
  }))
  return expires_at
end)
