-- Numbers that order things: arrivals, lines of the feed, open waitpoints.
--
-- On a single server streams count by themselves. On a cluster every partition gives numbers of its own that can be
-- compared with those of all others: quarters of microseconds, rounded so that the rest of a division by the number of
-- partitions names the partition; so no number is given twice. They follow the server's clock, never the caller's
-- `now`, and never go back: not behind the last one given here, and not behind the last one that the caller has seen.

local QUARTERS = 4

-- The first number that this server could give out from now on, in a partition without a past.
function ff.clock_number(width)
  local time = redis.call('TIME')
  return math.floor((time[1] * 1000000 + time[2]) * QUARTERS / width) * width
end

-- The caller's time: `<now or ''>` on a single server, `<now or ''>/<last number seen>/<partitions>` on a cluster.
function ff.time_of(home, text)
  if home == ff.keys.SINGLE then return ff.clock(text) end
  local now, seen, width = string.match(text, '^(%d*)/(%d+)/(%d+)$')
  return ff.clock(now), {seen = tonumber(seen), width = tonumber(width)}
end

local function next_number(space)
  local numbers = space.numbers
  local width = numbers.width
  if not numbers.last then
    local place = tonumber(string.match(space.keys.home, '{fp:(%d+)}'))
    local before = tonumber(redis.call('GET', space.keys.tick) or 0)
    local free = math.max(ff.clock_number(width), (math.floor(numbers.seen / width) + 1) * width) + place
    numbers.last = math.max(free, before + width) - width
  end
  numbers.last = numbers.last + width
  redis.call('SET', space.keys.tick, ff.digits(numbers.last))
  return numbers.last
end

-- Append to a stream; the number of the entry is returned, as text.
function ff.append_text(space, stream, name, value)
  if not space.numbers then return string.sub(redis.call('XADD', stream, '0-*', name, value), 3) end
  local number = ff.digits(next_number(space))
  redis.call('XADD', stream, '0-' .. number, name, value)
  return number
end

function ff.append(space, stream, name, value)
  return tonumber(ff.append_text(space, stream, name, value))
end

function ff.next_in_inbox(space)
  if not space.numbers then return redis.call('INCR', space.keys.inbox_position) end
  return next_number(space)
end

-- Queues of a cluster: callers keep in mind where the best work of a lane lies, so every answer tells how the queues
-- that it touched begin now, and whoever waits is told the same.

-- A queue has changed; `wake` is the namespace of what somebody may be waiting for, or false.
function ff.touch_queue(space, lane, route, wake)
  if not space.numbers then
    if wake then ff.note_topic(space.call, 'lane:' .. lane, wake) end
    return
  end
  local key = space.keys.route(lane, route)
  local touched = space.heads[key]
  if not touched then
    touched = {key = key, lane = lane, route = route}
    space.heads[key], space.heads[#space.heads + 1] = touched, touched
  end
  if wake and not touched.wake then
    touched.wake = wake
  elseif wake and not string.find('\n' .. touched.wake .. '\n', '\n' .. wake .. '\n', 1, true) then
    touched.wake = touched.wake .. '\n' .. wake
  end
end

-- {last number, {lane, route, score, id} ...} after the step; score and id are '' when the queue is empty.
function ff.notes(space)
  ff.settle(space.call)
  local notes = {space.numbers.last and ff.digits(space.numbers.last) or '0'}
  for i = 1, #space.heads do
    local touched = space.heads[i]
    if i == 1 then notes[1] = ff.digits(next_number(space)) end
    local head = redis.call('ZRANGE', touched.key, 0, 0, 'WITHSCORES')
    local note = {touched.lane, touched.route, head[2] or '', head[1] or ''}
    notes[#notes + 1] = note
    if touched.wake then
      redis.call('PUBLISH', ff.keys.channel('lane:' .. touched.lane),
        cmsgpack.pack({space.keys.home, notes[1], note[2], note[3], note[4], touched.wake}))
    end
  end
  return notes
end
