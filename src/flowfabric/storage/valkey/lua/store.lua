-- Writing what a step staged. Memberships of indexes follow from the records, here and nowhere else.

local function move_lists(keys, run, head, was, state)
  local id = run.execution_id
  local tally = run.lane_id .. '\0' .. run.namespace .. '\0'
  if was then
    redis.call('ZREM', keys.state(run.lane_id, was), id)
    redis.call('HINCRBY', keys.tally, tally .. was, -1)
  end
  if state then
    redis.call('ZADD', keys.state(run.lane_id, state), ff.arrival_of(head), id)
    redis.call('HINCRBY', keys.tally, tally .. state, 1)
  end
end

local function move_tags(keys, id, old, new, head)
  if old and new and cmsgpack.pack(old) == cmsgpack.pack(new) then return end
  for i = 1, old and #old or 0 do redis.call('ZREM', keys.tag(old[i][1], old[i][2]), id) end
  for i = 1, new and #new or 0 do
    redis.call('ZADD', keys.tag(new[i][1], new[i][2]), ff.arrival_of(head), id)
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
  if due > space.now then
    local first = redis.call('ZRANGE', space.keys.due, '(' .. ff.digits(space.now), '+inf', 'BYSCORE', 'LIMIT', 0, 1)
    if first[1] ~= id then return end
  end
  redis.call('PUBLISH', ff.keys.channel('due'), ff.digits(due))
end

-- Move one execution from its old record to its new one; either may be nil.
function ff.store(space, id, known, new)
  local keys, old, head = space.keys, known and known.run, known and known.head
  local run = new or old
  local was, old_score, old_state, old_due, old_holder, old_claim = false, 0, nil, 0, '', ''
  if old then was, old_score, old_state, old_due, old_holder, old_claim = ff.placement(old) end
  local is, score, state, due, holder, claim = false, 0, nil, 0, '', ''
  if new then is, score, state, due, holder, claim = ff.placement(new) end
  if not old then
    head = ff.arrival_head(ff.append(space, keys.arrivals, 'id', id))
    redis.call('ZADD', ff.keys.partition(id), 0, string.sub(id, -36))
    if run.flow_id ~= '' then redis.call('ZADD', keys.flow(run.flow_id), ff.arrival_of(head), id) end
  end
  if new then
    redis.call('SET', ff.keys.execution(id), head .. space:bytes_of(new))
  else
    redis.call('XDEL', keys.arrivals, '0-' .. ff.digits(ff.arrival_of(head)))
    redis.call('ZREM', ff.keys.partition(id), string.sub(id, -36))
    if run.flow_id ~= '' then redis.call('ZREM', keys.flow(run.flow_id), id) end
  end
  if state ~= old_state then move_lists(keys, run, head, old_state, state) end
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
    if old_holder ~= '' and old_holder ~= holder then redis.call('HDEL', keys.leases(old_holder), id) end
    if holder ~= '' then redis.call('HSET', keys.leases(holder), id, claim) end
  end
  local old_tags, tags = old and old.tags, new and new.tags
  if old_tags ~= tags and ((old_tags and old_tags[1]) or (tags and tags[1])) then
    move_tags(keys, id, old_tags, tags, head)
  end
  redis.call('PUBLISH', ff.keys.channel('execution:' .. id), '')
end

local function tell(space)
  for i = 1, #space.events do
    local id, event = space.events[i][1], space.events[i][2]
    local run = space.runs[id]
    local entry = cmsgpack.pack({id, run.namespace, run.lane_id, run.execution_kind, run.flow_id, event})
    redis.call('RPUSH', ff.keys.history(id), ff.digits(ff.append(space, space.keys.feed, 'e', entry)))
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
  for i = 1, #space.order do
    local id = space.order[i]
    local known = space.loaded[id] or nil
    local new = space.runs[id] or nil
    if known or new then ff.store(space, id, known, new) end
  end
  tell(space)
  for i = 1, #space.places do write(space, space.staged[space.places[i]]) end
  for i = 1, #space.effects do
    local effect = space.effects[i]
    ff.effects[effect[1]](space, effect[2], effect[3], effect[4])
  end
end
