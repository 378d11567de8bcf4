-- ff_mend: put one execution into every index in which its record belongs.
--
-- Keys      the home of the execution
-- Command   none: time, 1 to mend or 0 to look, execution id
-- Reply     for each entry that was missing or wrong: its key, what it said ('' for nothing), what the record implies
-- Keeps     indexes follow from records; looking and mending are one step, so nothing that others write is lost

local function text(value)
  if value == nil then return '' end
  return type(value) == 'number' and ff.digits(value) or value
end

-- The place in the order of arrival: an entry that is lost cannot be put between others, so it becomes the last.
local function arrival(space, id, fix, wrong)
  local case = space.cases[id]
  local number = case.arrival
  local at = '0-' .. ff.digits(number)
  local entry = redis.call('XRANGE', space.keys.arrivals, at, at)[1]
  if entry and entry[2][2] == id then return number, number end
  wrong(space.keys.arrivals, entry and entry[2][2], id)
  if not fix then return number, number end
  local new = ff.append(space, space.keys.arrivals, 'id', id)
  local hot, rest = space:bytes_of(case.run)
  redis.call('SET', ff.keys.execution(id), ff.head_of(case.run, new, case.told) .. hot .. rest)
  return number, new
end

-- A waitpoint stands at one position in the inbox of everybody and in that of its namespace; each tells where the other
-- has lost it. What both have lost becomes the last.
local function mend_inbox(space, run, fix, wrong)
  local id, all = run.execution_id, space.keys.inbox
  local waitpoints, mine = space:children('waitpoint', id), space.keys.of_namespace(run.namespace, 'inbox')
  for i = 1, #waitpoints do
    local waitpoint = waitpoints[i]
    local member = id .. '\0' .. waitpoint.waitpoint_id
    local position, says = redis.call('ZSCORE', all, member), redis.call('ZSCORE', mine, member)
    if ff.in_inbox(waitpoint) and (not position or says ~= position) then
      if not position then wrong(all, nil, waitpoint.waitpoint_id) end
      if not says or position then wrong(mine, says or nil, waitpoint.waitpoint_id) end
      local right = fix and (position or says or ff.next_in_inbox(space))
      if fix then redis.call('ZADD', all, right, member) end
      if fix then redis.call('ZADD', mine, right, member) end
    end
  end
end

-- A queue that its lane does not know is never looked at.
local function mend_queue(space, run, fix, wrong)
  local key, route = space.keys.routes(run.lane_id), ff.route_of(run)
  if redis.call('SISMEMBER', key, route) == 1 then return end
  wrong(key, nil, route)
  if fix then redis.call('SADD', key, route) end
end

redis.register_function('ff_mend', function(names, args)
  local space, fix, id, found = ff.new_space(ff.new_call(names[1], args[1])), args[2] == '1', args[3], {}
  local run = space:find(id)
  if not run then return found end
  local function wrong(key, says, implied)
    local from = #found
    found[from + 1], found[from + 2], found[from + 3] = key, text(says), text(implied)
  end
  local before, after = arrival(space, id, fix, wrong)
  local places = ff.belongs(space, run, before)
  local moved = after == before and places or ff.belongs(space, run, after)
  for i = 1, #places do
    local says = ff.entry(places[i])
    if says ~= places[i][3] then wrong(places[i][1], says, places[i][3]) end
    if fix and says ~= moved[i][3] then ff.put_entry(moved[i]) end
  end
  if ff.placement(run) then mend_queue(space, run, fix, wrong) end
  mend_inbox(space, run, fix, wrong)
  if fix and found[1] then
    if ff.placement(run) then ff.touch_queue(space, run.lane_id, ff.route_of(run), run.namespace) end
    if space.numbers then ff.notes(space) else ff.settle(space.call) end
    local due = ff.due_at(run)
    if due ~= 0 then redis.call('PUBLISH', ff.keys.channel('due'), ff.digits(due)) end
  end
  return found
end)
