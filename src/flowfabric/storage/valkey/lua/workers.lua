-- The workers that are known: model/operations/worker.py.

function ff.worker_expires_at(worker)
  return math.min(worker.last_heartbeat_at + worker.liveness_ttl_ms, ff.limits.MAX_INT)
end

-- Indexes of workers. All that take the same on a lane are a group; a group is known by what they take.

local function groups_of(keys, worker)
  local profile, found = redis.sha1hex(cmsgpack.pack({worker.capabilities, worker.kinds})), {}
  for i = 1, #worker.lanes do
    local lane = keys.serving(worker.namespace, worker.lanes[i])
    found[lane .. '\0' .. profile] = lane
  end
  return found, profile
end

local function leave(group, lane, profile, instance)
  redis.call('ZREM', group, instance)
  if redis.call('EXISTS', group) == 0 then redis.call('ZREM', lane, profile) end
end

-- Move a worker from where its old record stood to where its new one stands; each may be nil.
function ff.index_worker(keys, old, new)
  local instance, entered = (new or old).worker_instance_id, {}
  local name = (new or old).namespace .. '\0' .. instance
  if new then
    local expires, profile = ff.worker_expires_at(new), nil
    entered, profile = groups_of(keys, new)
    for group, lane in pairs(entered) do
      redis.call('ZADD', group, expires, instance)
      redis.call('ZADD', lane, 'GT', expires, profile)
    end
    redis.call('ZADD', keys.workers_by_expiry, expires, name)
    redis.call('ZADD', keys.workers_by_name, 0, name)
  else
    redis.call('ZREM', keys.workers_by_expiry, name)
    redis.call('ZREM', keys.workers_by_name, name)
  end
  if old then
    local left, profile = groups_of(keys, old)
    for group, lane in pairs(left) do
      if not entered[group] then leave(group, lane, profile, instance) end
    end
  end
end

-- Delete up to so many workers whose time is over. Reply: how many.
function ff.forget_workers(keys, now, limit)
  local gone = redis.call('ZRANGE', keys.workers_by_expiry, '-inf', ff.digits(now), 'BYSCORE', 'LIMIT', 0, limit)
  for i = 1, #gone do
    local value = redis.call('HGET', keys.workers, gone[i])
    if value then
      ff.index_worker(keys, ff.unpack('Worker', value), nil)
      redis.call('HDEL', keys.workers, gone[i])
    else
      redis.call('ZREM', keys.workers_by_expiry, gone[i])
      redis.call('ZREM', keys.workers_by_name, gone[i])
    end
  end
  return #gone
end
