-- ff_lose_dead_lease (T8): take the lease of a worker that was marked dead.
--
-- Keys      the execution
-- Command   LoseDeadLease
-- Reply     "marked" | "satisfied", why nothing had to be done
-- Keeps     a lease that another worker holds by now is never taken

ff.operation('ff_lose_dead_lease', 'LoseDeadLease', function(space, command)
  local run = space:find(command.execution_id)
  local why = ff.no_lease(run)
  if why then return 'satisfied', why end
  if run.current_worker_instance_id ~= command.worker_instance_id then return 'satisfied', 'held_by_another' end
  ff.lose_lease(space, run, ff.T.WORKER_DIED, 'worker_dead', command.actor ~= '' and command.actor or 'timer')
  return 'marked'
end)
