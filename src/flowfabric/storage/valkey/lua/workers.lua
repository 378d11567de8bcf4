-- The workers that are known: model/machine/workers.py.

function ff.worker_expires_at(worker)
  return math.min(worker.last_heartbeat_at + worker.liveness_ttl_ms, ff.limits.MAX_INT)
end

-- The worker that a command names, or nil when it is not known or was not heard of for its time to live.
function ff.living_worker(space, command)
  local known = space:get('worker', command.namespace, command.worker_instance_id)
  return known and ff.worker_expires_at(known) > space.now and known or nil
end
