-- What all commands of one call share: its time, its home, and entries of indexes, written when the last is decided.
--
-- A record is written as soon as its command is decided, so the commands behind it see it. Entries of indexes wait:
-- many members of a set cost little more than one. Whoever reads an index inside a call asks `ff.settle` first, or
-- trusts records alone.

local tuned = false

function ff.new_call(home, time)
  if not tuned then
    -- The library itself is most of what the collector walks through: let it begin when there is four times as much.
    tuned = true
    collectgarbage('setpause', 400)
  end
  local now, numbers = ff.time_of(home, time)
  return {
    now = now, keys = ff.keys.at(home),
    numbers = numbers,               -- nil on a single server, where streams count by themselves (numbers.lua)
    entered = {},                    -- executions whose entries wait
    new = {}, gone = {},             -- sorted sets: key -> list of score and member, of members
    new_leases = {}, ended = {},     -- hashes: key -> list of execution and claim, of executions
    tally = {},                      -- field -> how many
    routes = {},                     -- key of a set -> its new members
    topics = {},                     -- who is woken
    watched = {1, nil, nil, nil, nil, nil, nil, nil, nil}, -- a list: channels of executions that have changed
    tasks = 1,                       -- how many tasks its claims may take
    seen = nil, last_seen = nil, last_wish = nil, queues = nil, due = nil, due_id = nil,
  }
end

-- Entries of one execution wait for those of others, never for earlier ones of its own.
function ff.enter(call, id)
  if call.entered[id] then ff.settle(call) end
  call.entered[id] = true
end

-- A list begins with the last place that is taken, and has room from the beginning: growing step by step costs more than
-- all that is put into it.
local function list_of(lists, key)
  local list = lists[key]
  if not list then
    list = {
      1, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil,
      nil, nil, nil, nil, nil, nil, nil, nil, nil, nil,
    }
    lists[key] = list
  end
  return list
end

local function add_one(lists, key, value)
  local list = list_of(lists, key)
  local last = list[1] + 1
  list[last], list[1] = value, last
end

local function add_two(lists, key, value, other)
  local list = list_of(lists, key)
  local last = list[1] + 2
  list[last - 1], list[last], list[1] = value, other, last
end

-- Put a member into a sorted set, or take it out: score is false then.
function ff.put_member(call, key, member, score)
  if score then add_two(call.new, key, score, member) else add_one(call.gone, key, member) end
end

function ff.put_lease(call, key, id, claim)
  if claim then add_two(call.new_leases, key, id, claim) else add_one(call.ended, key, id) end
end

-- Work can be claimed: queues that were read in this call are out of date.
function ff.put_route(call, lane, route)
  local key = call.keys.routes(lane)
  local routes = call.routes[key] or {}
  call.routes[key], routes[route] = routes, true
  call.queues = nil
end

-- Something new falls due; only the earliest of a call can be the one that the timer waits for.
function ff.note_due(call, id, due)
  if call.due and call.due <= due then return end
  call.due, call.due_id = due, id
end

-- Tell those who watch an execution.
function ff.note_change(call, id)
  local watched = call.watched
  local last = watched[1] + 1
  watched[last], watched[1] = 'ff:wake:execution:' .. id, last
end

-- Where many have changed, few are watched; on a cluster nobody knows who listens to other servers.
local function wake_watchers(call)
  local watched = call.watched
  if watched[1] == 1 then return end
  call.watched = {1, nil, nil, nil, nil, nil, nil, nil, nil}
  if watched[1] == 2 or call.numbers then
    for i = 2, watched[1] do redis.call('PUBLISH', watched[i], '') end
    return
  end
  local counts = redis.call('PUBSUB', 'NUMSUB', unpack(watched, 2, watched[1]))
  for i = 1, #counts, 2 do
    if counts[i + 1] > 0 then redis.call('PUBLISH', counts[i], '') end
  end
end

local function send(verb, lists)
  for key, list in pairs(lists) do redis.call(verb, key, unpack(list, 2, list[1])) end
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
  if next(call.entered) then
    send('ZREM', call.gone)
    send('ZADD', call.new)
    send('HDEL', call.ended)
    send('HSET', call.new_leases)
    for field, count in pairs(call.tally) do redis.call('HINCRBY', call.keys.tally, field, count) end
    for key, routes in pairs(call.routes) do
      for route in pairs(routes) do redis.call('SADD', key, route) end
    end
    call.entered, call.gone, call.new, call.ended, call.new_leases = {}, {}, {}, {}, {}
    call.tally, call.routes = {}, {}
  end
  if call.seen then ff.write_seen(call) end
  if call.due then tell_timer(call) end
  wake_watchers(call)
  for topic in pairs(call.topics) do redis.call('PUBLISH', ff.keys.channel(topic), '') end
  call.topics = {}
end
