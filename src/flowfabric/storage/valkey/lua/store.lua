-- Writing what a step staged. Memberships of indexes follow from the records, here and nowhere else.

local function move_lists(keys, run, arrival, was, state)
  local id, lane = run.execution_id, run.lane_id
  if was ~= '' then redis.call('ZREM', keys.state(lane, was), id) end
  if state ~= '' then redis.call('ZADD', keys.state(lane, state), arrival, id) end
  redis.call('HINCRBY', keys.tally, lane .. '\0' .. run.namespace .. '\0' .. was .. '\0' .. state, 1)
end

local function move_tags(keys, id, old, new, arrival)
  if old and new and cmsgpack.pack(old) == cmsgpack.pack(new) then return end
  for i = 1, old and #old or 0 do redis.call('ZREM', keys.tag(old[i][1], old[i][2]), id) end
  for i = 1, new and #new or 0 do
    redis.call('ZADD', keys.tag(new[i][1], new[i][2]), arrival, id)
  end
end

-- Something falls due: the timer is told when that comes before everything else that lies ahead.
local function set_due(space, id, was, due)
  if due == 0 then
    redis.call('ZREM', space.keys.due, id)
    return
  end
  redis.call('ZADD', space.keys.due, due, id)
  if was ~= 0 and was <= due then return end
  local first = redis.call('ZRANGE', space.keys.due, 0, 0, 'WITHSCORES')
  if first[1] ~= id and due > space.now then
    if tonumber(first[2]) > space.now then return end
    first = redis.call('ZRANGE', space.keys.due, '(' .. ff.digits(space.now), '+inf', 'BYSCORE', 'LIMIT', 0, 1)
    if first[1] ~= id then return end
  end
  redis.call('PUBLISH', ff.keys.channel('due'), ff.digits(due))
end

-- Whether what has left its holder was taken from it: storage/wake.py.
local function taken(run)
  local outcome = run.terminal_outcome
  return run.lifecycle_phase == 'active' or outcome == 'cancelled' or outcome == 'expired'
end

-- Move one execution from its old record (known.run) to its new one; either may be nil.
function ff.store(space, id, known, new)
  local keys, old, arrival = space.keys, known.run, known.arrival
  local run = new or old
  local was, old_score, old_state, old_due, old_holder, old_claim = false, 0, '', 0, '', ''
  if old then was, old_score, old_state, old_due, old_holder, old_claim = ff.placement(old) end
  local is, score, state, due, holder, claim = false, 0, '', 0, '', ''
  if new then is, score, state, due, holder, claim = ff.placement(new) end
  if not old then
    redis.call('ZADD', ff.keys.partition(id), 0, string.sub(id, -36))
    if run.flow_id ~= '' then redis.call('ZADD', keys.flow(run.flow_id), arrival, id) end
  end
  if new then
    local hot, rest = space:bytes_of(new)
    redis.call('SET', ff.keys.execution(id), ff.head_of(arrival, known.told) .. hot .. rest)
  else
    redis.call('XDEL', keys.arrivals, '0-' .. ff.digits(arrival))
    redis.call('ZREM', ff.keys.partition(id), string.sub(id, -36))
    if run.flow_id ~= '' then redis.call('ZREM', keys.flow(run.flow_id), id) end
  end
  if state ~= old_state then move_lists(keys, run, arrival, old_state, state) end
  local moved, wake = is ~= was or (is and score ~= old_score), is and not (was and not old.grant[1])
  if moved or wake then
    local route = ff.route_of(run)
    if moved and is then
      redis.call('ZADD', keys.route(run.lane_id, route), score, id)
      redis.call('SADD', keys.routes(run.lane_id), route)
    elseif moved then
      redis.call('ZREM', keys.route(run.lane_id, route), id)
    end
    ff.touch_queue(space, run.lane_id, route, wake)
  end
  if due ~= old_due then set_due(space, id, old_due, due) end
  if holder ~= old_holder or claim ~= old_claim then
    if old_holder ~= '' and old_holder ~= holder then
      redis.call('HDEL', keys.leases(old_holder), id)
      if taken(run) then redis.call('PUBLISH', ff.keys.channel('worker:' .. old_holder), '') end
    end
    if holder ~= '' then redis.call('HSET', keys.leases(holder), id, claim) end
  end
  local old_tags, tags = old and old.tags, new and new.tags
  if old_tags ~= tags and ((old_tags and old_tags[1]) or (tags and tags[1])) then
    move_tags(keys, id, old_tags, tags, arrival)
  end
  redis.call('PUBLISH', 'ff:wake:execution:' .. id, '')
end

-- The positions of the newest lines stand in the record; now and then they move to a list.
local function note_position(id, known, seq, position)
  known.told = known.told == '' and position or known.told .. ' ' .. position
  if seq % ff.TOLD ~= 0 then return end
  local positions = {}
  for each in string.gmatch(known.told, '%d+') do positions[#positions + 1] = each end
  redis.call('RPUSH', ff.keys.history(id), unpack(positions))
  known.told = ''
end

local function tell(space)
  for i = 1, #space.events do
    local line = space.events[i]
    local known = space:whereabouts(line[1])
    note_position(line[1], known, line[6], ff.append_text(space, space.keys.feed, 'e', cmsgpack.pack(line)))
  end
  if space.events[1] then redis.call('PUBLISH', ff.keys.channel('feed'), '') end
end

-- What besides the record itself follows from writing a record of a kind: ff.after_put.<kind>(space, staged).
ff.after_put = {}

function ff.after_put.memo(space, staged)
  redis.call('ZADD', space.keys.memos, staged.record.expires_at, staged.key)
end

function ff.after_put.lane(_, staged)
  redis.call('PUBLISH', ff.keys.channel('lane:' .. staged.a), '')
end

function ff.after_put.step(_, staged)
  redis.call('ZADD', ff.keys.steps(staged.a), staged.record.call_index, staged.b)
end

function ff.after_put.waitpoint(space, staged)
  local member = staged.a .. '\0' .. staged.b
  if staged.record.state == 'closed' then
    redis.call('ZREM', space.keys.inbox, member)
  elseif not redis.call('ZSCORE', space.keys.inbox, member) then
    redis.call('ZADD', space.keys.inbox, ff.next_in_inbox(space), member)
  end
end

local function write(space, staged)
  local key, field, record = staged.key, staged.field, staged.record
  if not record then
    if field then redis.call('HDEL', key, field) else redis.call('DEL', key) end
    if staged.kind == 'step' then redis.call('ZREM', ff.keys.steps(staged.a), field) end
    return
  end
  if field then redis.call('HSET', key, field, ff.pack(record)) else redis.call('SET', key, ff.pack(record)) end
  local after = ff.after_put[staged.kind]
  if after then after(space, staged) end
end

-- Write everything that the step staged.
function ff.flush(space)
  tell(space)
  local order = space.order
  for i = 1, #order do ff.store(space, order[i], space:whereabouts(order[i]), space.runs[order[i]] or nil) end
  for i = 1, #space.places do write(space, space.staged[space.places[i]]) end
  for i = 1, #space.effects do
    local effect = space.effects[i]
    ff.effects[effect[1]](space, effect[2], effect[3], effect[4])
  end
end
