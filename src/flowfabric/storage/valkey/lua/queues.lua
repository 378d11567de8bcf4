-- Finding claimable work: the routes that a worker may serve, and their best executions in the order of the lane.

local NONE = {}

local function covered(capabilities, offered)
  if capabilities == '' then return true end
  for token in string.gmatch(capabilities, '[^,]+') do
    if not offered[token] then return false end
  end
  return true
end

local function as_set(list)
  local set = {}
  for i = 1, #list do set[list[i]] = true end
  return set
end

local function open_lanes(keys, lanes)
  local records, open = redis.call('HMGET', keys.lanes, unpack(lanes)), {}
  for i = 1, #lanes do
    if not (records[i] and ff.unpack('Lane', records[i]).paused_at ~= 0) and not open[lanes[i]] then
      open[lanes[i]] = true
      open[#open + 1] = lanes[i]
    end
  end
  return open
end

-- Append the routes of lanes that are not paused to `found`, as far as kinds (nil: any) and capabilities reach; the
-- others to `others`, if that is wanted.
function ff.routes(keys, lanes, kinds, capabilities, found, others)
  local offered, wanted = as_set(capabilities), kinds and as_set(kinds)
  local open = open_lanes(keys, lanes)
  for i = 1, #open do
    local routes = redis.call('SMEMBERS', keys.routes(open[i]))
    for j = 1, #routes do
      local kind, needed = string.match(routes[j], '^(.-)%z(.*)$')
      local list = (not wanted or wanted[kind]) and covered(needed, offered) and found or others
      if list then
        list[#list + 1] = {
          key = keys.route(open[i], routes[j]), home = keys.home, lane = open[i], route = routes[j],
          ids = NONE, scores = NONE, at = 1, offset = 0,
        }
      end
    end
  end
  return found
end

-- The next page of a queue; one that stands alone is not compared with others, and what comes next is sure.
local function fill(space, front, count, alone, ahead)
  if alone then
    front.ids, front.at = redis.call('ZRANGE', front.key, front.offset, front.offset + count - 1), 1
  else
    local page = redis.call('ZRANGE', front.key, front.offset, front.offset + count - 1, 'WITHSCORES')
    front.ids, front.scores, front.at = {}, {}, 1
    for i = 1, #page, 2 do
      front.ids[#front.ids + 1] = page[i]
      front.scores[#front.scores + 1] = tonumber(page[i + 1])
    end
  end
  if #front.ids == 0 and front.offset == 0 then space:emit('forget_route', front.lane, front.route) end
  front.offset = front.offset + #front.ids
  front.complete = #front.ids < count
  if ahead and front.ids[1] then ff.read_ahead(space.call, front.ids) end
end

local function before(front, other)
  local left, right = front.scores[front.at], other.scores[other.at]
  if left ~= right then return left < right end
  return ff.precedes(front.ids[front.at], other.ids[other.at])
end

-- A function that returns the next best execution each time, without those that carry a live grant; nil at the end.
-- They are read with their payload, unless `find` says otherwise; many at once where it is sure that they come next.
function ff.queue(routes, namespace, count, find)
  local alone = not routes[2]
  return function(space)
    while true do
      local best
      for i = 1, #routes do
        local front = routes[i]
        if not front.ids[front.at] and not front.complete then fill(space, front, count, alone, alone and not find) end
        if front.ids[front.at] and (not best or before(front, best)) then best = front end
      end
      if not best then return nil end
      local run = (find or ff.Space.find_with_payload)(space, best.ids[best.at])
      best.at = best.at + 1
      if run and ff.claimable(run) and not ff.granted(run, space.now)
        and (namespace == '' or namespace == run.namespace) then
        return run
      end
    end
  end
end

-- What a claim asks for, as one text.
function ff.wish_of(call, claim)
  local wish = call.wishes[claim]
  if not wish then
    wish = cmsgpack.pack({claim.namespace, claim.lanes, claim.kinds or false, claim.capabilities})
    call.wishes[claim] = wish
    call.wanted[wish] = (call.wanted[wish] or 0) + claim.max_tasks
  end
  return wish
end

-- The queue of a claim. Claims of one call that wish for the same share it: what one has taken, the next does not see.
-- It is made anew when work has come in between.
function ff.queue_of(call, claim, wish)
  local count = call.wanted[wish]
  call.wanted[wish] = count - claim.max_tasks
  if call.queues and call.queues[wish] then return call.queues[wish] end
  if next(call.routes) then ff.settle(call) end
  local routes = ff.routes(call.keys, claim.lanes, claim.kinds, claim.capabilities, {})
  call.queues = call.queues or {}
  call.queues[wish] = ff.queue(routes, claim.namespace, count)
  return call.queues[wish]
end
