-- ff_release_lease (T8): the holder gives the lease back unfinished; claimable at once, not counted as a reclaim.
--
-- Keys      the execution
-- Command   Release
-- Reply     nothing
-- Keeps     only the holder of a live lease gives it back

ff.operation('ff_release_lease', 'Release', function(space, command)
  local run = ff.hold(space, command)
  ff.lose_lease(space, run, ff.T.LEASE_RELEASED, 'released', ff.actor_of(run, command), command.reason)
end)
