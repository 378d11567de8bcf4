-- ff_heartbeat_worker: lengthen the life of a worker.
--
-- Keys      the worker records
-- Command   HeartbeatWorker
-- Reply     "refreshed", when it counts as gone unless it is heard of | "not_registered"
-- Keeps     one whose time is over was counted as gone and must register again

ff.operation('ff_heartbeat_worker', 'HeartbeatWorker', function(space, command)
  local known = ff.living_worker(space, command)
  if not known or known.registered_at == 0 then return 'not_registered' end
  local worker = ff.replace(known, {last_heartbeat_at = space.now})
  space:put('worker', worker, command.namespace, command.worker_instance_id)
  return 'refreshed', ff.worker_expires_at(worker)
end)
