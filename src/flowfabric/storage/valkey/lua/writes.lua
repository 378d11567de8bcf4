-- What all commands of one call share: its time, its home, and entries of indexes, written when the last is decided.
--
-- A record is written as soon as its command is decided, so the commands behind it see it. Entries of indexes wait:
-- many members of a set cost little more than one. Whoever reads an index inside a call asks `ff.settle` first, or
-- trusts records alone.

function ff.new_call(home, time)
  local now, numbers = ff.time_of(home, time)
  return {
    now = now, keys = ff.keys.at(home),
    numbers = numbers, -- nil on a single server, where streams count by themselves (numbers.lua)
    members = {},      -- key of a sorted set -> member -> score, or false to take it out
    leases = {},       -- key of a hash -> execution id -> claim id, or false
    tally = {},        -- field -> how many
    routes = {},       -- key of a set -> its new members
    topics = {},       -- who is woken
    tasks = 1,         -- how many tasks its claims may take
  }
end

local function of(table, key)
  local inner = table[key]
  if not inner then
    inner = {}
    table[key] = inner
  end
  return inner
end

function ff.put_member(call, key, member, score)
  of(call.members, key)[member] = score
end

function ff.put_lease(call, key, id, claim)
  of(call.leases, key)[id] = claim
end

-- Work can be claimed: queues that were read in this call are out of date.
function ff.put_route(call, lane, route)
  of(call.routes, call.keys.routes(lane))[route] = true
  call.queues = nil
end

-- Something new falls due; only the earliest of a call can be the one that the timer waits for.
function ff.note_due(call, id, due)
  if call.due and call.due <= due then return end
  call.due, call.due_id = due, id
end

local function write_members(key, members)
  local new, gone = {}, {}
  for member, score in pairs(members) do
    if score then
      new[#new + 1] = score
      new[#new + 1] = member
    else
      gone[#gone + 1] = member
    end
  end
  if gone[1] then redis.call('ZREM', key, unpack(gone)) end
  if new[1] then redis.call('ZADD', key, unpack(new)) end
end

local function write_leases(key, leases)
  local new, gone = {}, {}
  for id, claim in pairs(leases) do
    if claim then
      new[#new + 1] = id
      new[#new + 1] = claim
    else
      gone[#gone + 1] = id
    end
  end
  if gone[1] then redis.call('HDEL', key, unpack(gone)) end
  if new[1] then redis.call('HSET', key, unpack(new)) end
end

-- The timer is told of what comes before everything else that lies ahead.
local function tell_timer(call)
  local id, due, key = call.due_id, call.due, call.keys.due
  call.due, call.due_id = nil, nil
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if first[1] ~= id and due > call.now then
    if not first[1] or tonumber(first[2]) > call.now then return end
    first = redis.call('ZRANGE', key, '(' .. ff.digits(call.now), '+inf', 'BYSCORE', 'LIMIT', 0, 1)
    if first[1] ~= id then return end
  end
  redis.call('PUBLISH', ff.keys.channel('due'), ff.digits(due))
end

-- Write what waits.
function ff.settle(call)
  for key, members in pairs(call.members) do write_members(key, members) end
  for key, leases in pairs(call.leases) do write_leases(key, leases) end
  for field, count in pairs(call.tally) do redis.call('HINCRBY', call.keys.tally, field, count) end
  for key, routes in pairs(call.routes) do
    for route in pairs(routes) do redis.call('SADD', key, route) end
  end
  if call.due then tell_timer(call) end
  for topic in pairs(call.topics) do redis.call('PUBLISH', ff.keys.channel(topic), '') end
  call.members, call.leases, call.tally, call.routes, call.topics = {}, {}, {}, {}, {}
end
