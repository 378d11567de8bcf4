-- Small functions of the engine, called with plain arguments: FCALL <name> 1 <home> <now or ''> ...

local WHEN_FULL = {'allow-oom'} -- they free memory, or let others do so

local function plain(name, act, flags)
  redis.register_function{function_name = name, flags = flags or {}, callback = function(keys, args)
    return act(ff.keys.at(keys[1]), ff.clock(args[1]), unpack(args, 2))
  end}
end

-- ff_take_baton name holder ttl_ms: hold or keep the right to do something alone. Reply 1 or 0.
plain('ff_take_baton', function(keys, now, name, holder, ttl)
  local value = redis.call('HGET', keys.batons, name)
  if value then
    local owner, before = unpack(cmsgpack.unpack(value))
    if owner ~= holder and before > now then return 0 end
  end
  redis.call('HSET', keys.batons, name, cmsgpack.pack({holder, now + tonumber(ttl)}))
  return 1
end, WHEN_FULL)

-- ff_drop_baton name holder: give it back, if it is held.
plain('ff_drop_baton', function(keys, _, name, holder)
  local value = redis.call('HGET', keys.batons, name)
  if value and cmsgpack.unpack(value)[1] == holder then redis.call('HDEL', keys.batons, name) end
  return 1
end, WHEN_FULL)

-- Names of a sorted set whose time is over; they are taken out of it.
local function expired(key, before, limit)
  local gone = redis.call('ZRANGE', key, '-inf', ff.digits(before), 'BYSCORE', 'LIMIT', 0, limit)
  for i = 1, #gone do redis.call('ZREM', key, gone[i]) end
  return gone
end

local function forget_past(keys, before, limit)
  local gone = expired(keys.past, before, limit)
  local floor = tonumber(redis.call('GET', keys.feed_floor) or 0)
  for i = 1, #gone do
    redis.call('XDEL', keys.feed, '0-' .. ff.digits(gone[i]))
    floor = math.max(floor, tonumber(gone[i]))
  end
  if gone[1] then redis.call('SET', keys.feed_floor, ff.digits(floor)) end
  return #gone
end

-- ff_collect limit: delete memos that have expired, workers that are gone, and what the feed still told of
-- executions that were purged long ago. Reply how many.
plain('ff_collect', function(keys, now, limit)
  local gone = expired(keys.memos, now, limit)
  for i = 1, #gone do redis.call('DEL', gone[i]) end
  local dead = ff.forget_workers(keys, now, limit)
  return #gone + dead + forget_past(keys, now - ff.limits.FEED_AFTER_PURGE_MS, limit)
end, WHEN_FULL)
