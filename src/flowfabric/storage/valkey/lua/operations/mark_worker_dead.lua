-- ff_mark_worker_dead: forget a worker at once; its leases are taken one by one.
--
-- Keys      the worker records
-- Command   MarkWorkerDead
-- Reply     "marked" | "not_registered"
-- Keeps     one that only claimed can be marked too, because it may hold leases

ff.operation('ff_mark_worker_dead', 'MarkWorkerDead', function(space, command)
  if not ff.living_worker(space, command) then return 'not_registered' end
  space:put('worker', false, command.namespace, command.worker_instance_id)
  return 'marked'
end)
