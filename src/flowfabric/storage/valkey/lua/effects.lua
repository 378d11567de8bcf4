-- What is only written: space:emit('<kind>', ...) ends here. ff.effects.<kind>(space, ...).

ff.effects = {}

-- What the caller sent; written once. Empty parts are not stored.
function ff.effects.payload(space, id, input, policy)
  space.call.created = true
  if input ~= '' then ff.put_value(space.call, ff.keys.input(id), input) end
  if policy ~= '' then ff.put_value(space.call, ff.keys.policy(id), policy) end
end

-- Workers as they were last read: most claims find theirs as the one before has left it.
local read, most = {}, 256

local function unpacked(field, value)
  local known = read[field]
  if known and known.value == value then return known.worker end
  if not known then most = most - 1 end
  if most < 0 then read, most = {}, 256 end
  read[field] = {value = value, worker = ff.unpack('Worker', value)}
  return read[field].worker
end

-- What an attempt returned.
function ff.effects.result(space, id, attempt, result)
  ff.put_value(space.call, (space.keys.place('result', id, attempt)), result)
end

-- A claim is a sign of life (presence.lua): those of a call are looked at together. Slots of one worker that wish for the
-- same are one sign.
function ff.effects.seen(space, claim, wish)
  local call = space.call
  local seen, instance = call.seen or {}, claim.worker_instance_id
  if call.seen and call.last_seen == instance and call.last_wish == wish then return end
  call.seen, call.last_seen, call.last_wish = seen, instance, wish
  seen[#seen + 1] = claim
end

function ff.write_seen(call)
  local claims, fields, now, written = call.seen, {}, call.now, {}
  call.seen = nil
  for i = 1, #claims do
    local claim = claims[i]
    fields[i] = ff.presence_namespace(claim) .. '\0' .. claim.worker_instance_id
  end
  local values = redis.call('HMGET', call.keys.workers, unpack(fields))
  for i = 1, #claims do
    local known = written[fields[i]] or values[i] and unpacked(fields[i], values[i]) or nil
    local worker = ff.presence(claims[i], known, now)
    if worker then
      redis.call('HSET', call.keys.workers, fields[i], ff.pack(worker))
      ff.index_worker(call.keys, known, worker)
      written[fields[i]] = worker
    end
  end
end

-- A route that turned out to be empty: forgotten until work comes to it again.
function ff.effects.forget_route(space, lane, route)
  redis.call('SREM', space.keys.routes(lane), route)
end

-- Frames of an attempt's stream, as {entry id, packed frame}.
function ff.effects.frames(_, id, attempt, frames)
  local key = ff.keys.frames(id, attempt)
  for i = 1, #frames do redis.call('XADD', key, frames[i][1], 'f', frames[i][2]) end
  redis.call('PUBLISH', ff.keys.channel('execution:' .. id), '')
end

-- Keep only the newest frames of an attempt.
function ff.effects.trim(_, id, attempt, keep)
  redis.call('XTRIM', ff.keys.frames(id, attempt), 'MAXLEN', '=', keep)
end

function ff.effects.drop_steps(space, id)
  redis.call('DEL', ff.keys.steps(id), ff.keys.heads(id), (space.keys.place('step', id, '')))
end

-- Remember which lines of the feed tell of something that is gone, many in one call.
local function note_past(space, positions)
  for from = 1, #positions, 500 do
    local scored = {}
    for i = from, math.min(from + 499, #positions) do
      scored[#scored + 1] = space.now
      scored[#scored + 1] = string.format('%016.0f', positions[i])
    end
    redis.call('ZADD', space.keys.past, unpack(scored))
  end
end

-- All that belongs to an execution goes with it (space:drop); the feed tells of it for a while longer.
function ff.effects.purge(space, id, attempts, namespace)
  ff.settle(space.call)
  local place, gone = space.keys.place, {
    ff.keys.execution(id), ff.keys.input(id), ff.keys.policy(id), ff.keys.steps(id), ff.keys.heads(id),
  }
  for _, kind in ipairs({'attempt', 'suspension', 'waitpoint', 'stream', 'summary', 'step'}) do
    gone[#gone + 1] = place(kind, id, '')
  end
  for _, waitpoint in ipairs(redis.call('HKEYS', (place('waitpoint', id, '')))) do
    gone[#gone + 1] = place('signal', id, waitpoint, '')
    redis.call('ZREM', space.keys.inbox, id .. '\0' .. waitpoint)
    redis.call('ZREM', space.keys.of_namespace(namespace, 'inbox'), id .. '\0' .. waitpoint)
  end
  for _, attempt in ipairs(redis.call('HKEYS', (place('stream', id, '')))) do
    gone[#gone + 1] = ff.keys.frames(id, attempt)
  end
  local positions = redis.call('LRANGE', ff.keys.history(id), 0, -1)
  local case = space.cases[id]
  for attempt = 0, attempts - 1 do gone[#gone + 1] = place('result', id, attempt) end
  for each in string.gmatch(case.told, '%d+') do positions[#positions + 1] = each end
  note_past(space, positions)
  gone[#gone + 1] = ff.keys.history(id)
  for i = 1, #gone do redis.call('UNLINK', gone[i]) end
  space.cases[id], space.call.records[id] = nil, false
end
