-- ff_register_worker: write down what a worker serves; a repeat overwrites it.
--
-- Keys      the worker records
-- Command   RegisterWorker; lanes, capabilities and kinds are sorted, each once
-- Reply     "registered" | "refreshed", when it counts as gone unless it is heard of
-- Keeps     an instance belongs to one worker for as long as it lives

ff.operation('ff_register_worker', 'RegisterWorker', function(space, command)
  local known = ff.living_worker(space, command)
  if known and known.worker_id ~= command.worker_id then
    ff.refuse('invalid_input', {}, 'worker_instance_id', 'instance_id reassigned')
  end
  local registered_at = known and known.registered_at or 0
  local worker = ff.new('Worker', {
    version = ff.RECORD_VERSION, worker_id = command.worker_id, worker_instance_id = command.worker_instance_id,
    namespace = command.namespace, lanes = command.lanes, capabilities = command.capabilities,
    last_heartbeat_at = space.now, liveness_ttl_ms = command.liveness_ttl_ms,
    registered_at = registered_at ~= 0 and registered_at or space.now, kinds = command.kinds,
  })
  space:put('worker', worker, command.namespace, command.worker_instance_id)
  if registered_at == 0 then return 'registered' end
  return 'refreshed', ff.worker_expires_at(worker)
end)
