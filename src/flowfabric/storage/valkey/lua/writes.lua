-- What all commands of one call share: its time, its home, and what is written when the last of them is decided.
--
-- Records of executions and entries of indexes wait until then: many in one command of the server cost little more than
-- one. Commands of the same call share what is known of executions (space.lua); whoever reads an index, or anything else
-- that may wait, asks `ff.settle` first.

local tuned = false

-- A list begins with the last place that is taken, and has room from the beginning: growing step by step costs more than
-- all that is put into it.
local function roomy()
  return {
    1, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil,
    nil, nil, nil, nil, nil, nil, nil, nil, nil, nil,
  }
end

function ff.new_call(home, time)
  if not tuned then
    -- The collector works in small pieces, and nearly always: the server lets it take a step with every fiftieth call,
    -- and as it comes a step holds everybody for a millisecond.
    tuned = true
    collectgarbage('setpause', 150)
    collectgarbage('setstepmul', 30)
  end
  local now, numbers = ff.time_of(home, time)
  return {
    now = now, keys = ff.keys.at(home),
    numbers = numbers,               -- nil on a single server, where streams count by themselves (numbers.lua)
    records = {},                    -- by id: records that were read ahead; false: none
    values = roomy(),                -- a list: key and value of what waits
    created = false,                 -- whether inputs wait
    wishes = {}, wanted = {},        -- claim -> its wish, wish -> how many tasks (queues.lua)
    entered = {},                    -- executions whose entries wait
    new = {}, gone = {},             -- sorted sets: key -> list of score and member, of members
    new_leases = {}, ended = {},     -- hashes: key -> list of execution and claim, of executions
    moves = {},                      -- lists: lane \0 namespace \0 from \0 to -> arrival and id of who moved
    routes = {},                     -- key of a set -> its new members
    topics = {},                     -- who is woken
    channels = {1, nil, nil, nil, nil, nil, nil, nil, nil}, -- a list: of executions that have changed
    space = nil, seen = nil, last_seen = nil, last_wish = nil, queues = nil, due = nil, due_id = nil,
  }
end

-- Entries of one execution wait for those of others, never for earlier ones of its own.
function ff.enter(call, id)
  if call.entered[id] then ff.settle(call) end
  call.entered[id] = true
end

local function add_one(lists, key, value)
  local list = lists[key]
  if not list then
    list = roomy()
    lists[key] = list
  end
  local last = list[1] + 1
  list[last], list[1] = value, last
end

local function add_two(lists, key, value, other)
  local list = lists[key]
  if not list then
    list = roomy()
    lists[key] = list
  end
  local last = list[1] + 2
  list[last - 1], list[last], list[1] = value, other, last
end

-- Write a value under a key of its own.
function ff.put_value(call, key, value)
  local values = call.values
  local last = values[1] + 2
  values[last - 1], values[last], values[1] = key, value, last
end

-- The packed record of an execution, as it was before this call; false when there is none.
function ff.record(call, id)
  local value = call.records[id]
  if value == nil then value = redis.call('GET', ff.keys.execution(id)) end
  return value
end

-- Read many records at once.
function ff.read_ahead(call, ids)
  local names, count = roomy(), #ids
  for i = 1, count do names[i] = ff.keys.execution(ids[i]) end
  local values = redis.call('MGET', unpack(names, 1, count))
  for i = 1, count do call.records[ids[i]] = values[i] end
end

-- The input of an execution, and the text of its policy; '' for none.

function ff.input(call, id)
  if call.created then ff.settle(call) end
  return redis.call('GET', ff.keys.input(id)) or ''
end

function ff.policy_text(call, id)
  if call.created then ff.settle(call) end
  return redis.call('GET', ff.keys.policy(id)) or ''
end

-- Put a member into a sorted set, or take it out: score is false then.
function ff.put_member(call, key, member, score)
  if score then add_two(call.new, key, score, member) else add_one(call.gone, key, member) end
end

function ff.put_lease(call, key, id, claim)
  if claim then add_two(call.new_leases, key, id, claim) else add_one(call.ended, key, id) end
end

-- Something has moved from one list of a lane and a state to another; `way` is a field of the tally.
function ff.note_move(call, way, arrival, id)
  add_two(call.moves, way, arrival, id)
end

-- Work can be claimed: queues that were read in this call are out of date.
function ff.put_route(call, lane, route)
  local key = call.keys.routes(lane)
  local routes = call.routes[key] or {}
  call.routes[key], routes[route] = routes, true
  call.queues = nil
end

local function send(verb, lists)
  for key, list in pairs(lists) do redis.call(verb, key, unpack(list, 2, list[1])) end
end

local function send_moves(keys, way, list)
  local lane, namespace, was, state = string.match(way, '^(.-)%z(.-)%z(.-)%z(.*)$')
  local last, ids = list[1], roomy()
  if was ~= '' then
    for i = 3, last, 2 do ids[(i - 1) / 2] = list[i] end
    for _, key in ipairs(ff.state_lists(keys, lane, namespace, was)) do
      redis.call('ZREM', key, unpack(ids, 1, (last - 1) / 2))
    end
  end
  if state ~= '' then
    for _, key in ipairs(ff.state_lists(keys, lane, namespace, state)) do redis.call('ZADD', key, unpack(list, 2, last)) end
  end
  redis.call('HINCRBY', keys.tally, way, (last - 1) / 2)
end

-- Count moves for each namespace, and for all together.
local function send_totals(keys, moves)
  local all, of = {}, {}
  for way, list in pairs(moves) do
    local namespace, step = string.match(way, '^.-%z(.-)%z(.*)$')
    local n, key = (list[1] - 1) / 2, namespace .. '\0' .. step
    all[step] = (all[step] or 0) + n
    if of[key] then
      of[key][3] = of[key][3] + n
    else
      of[key] = {namespace, step, n}
    end
  end
  for step, n in pairs(all) do redis.call('HINCRBY', keys.total(''), step, n) end
  for _, each in pairs(of) do redis.call('HINCRBY', keys.total(each[1]), each[2], each[3]) end
end

-- Write what waits; `over` when nothing follows in this call.
function ff.settle(call, over)
  local values = call.values
  if values[1] > 1 then
    call.created = false
    if not over then call.values = roomy() end
    redis.call('MSET', unpack(values, 2, values[1]))
  end
  if next(call.entered) then
    send('ZREM', call.gone)
    send('ZADD', call.new)
    send('HDEL', call.ended)
    send('HSET', call.new_leases)
    for way, list in pairs(call.moves) do send_moves(call.keys, way, list) end
    send_totals(call.keys, call.moves)
    for key, routes in pairs(call.routes) do
      for route in pairs(routes) do redis.call('SADD', key, route) end
    end
    if not over then
      call.entered, call.gone, call.new, call.ended, call.new_leases = {}, {}, {}, {}, {}
      call.moves, call.routes = {}, {}
    end
  end
  if call.seen then ff.write_seen(call) end
  ff.wake(call)
end
