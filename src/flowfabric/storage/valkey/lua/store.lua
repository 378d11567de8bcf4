-- Writing what a step staged, or a commit: entries of indexes move as indexes.lua says (writes.lua sends them).

local function put_in(call, lists, member, score)
  for i = 1, #lists do ff.put_member(call, lists[i], member, score) end
end

local function move_tags(call, run, id, old, new, arrival)
  if old and new and cmsgpack.pack(old) == cmsgpack.pack(new) then return end
  for i = 1, old and #old or 0 do put_in(call, ff.tag_lists(call.keys, run.namespace, old[i]), id, false) end
  for i = 1, new and #new or 0 do put_in(call, ff.tag_lists(call.keys, run.namespace, new[i]), id, arrival) end
end

-- Its places in the order of arrival, in its partition and in its flow, which it has for as long as it exists.
local function move_existence(call, run, id, arrival, exists)
  put_in(call, ff.id_lists(run), ff.short_id(id), exists and 0)
  put_in(call, ff.flow_lists(call.keys, run), id, exists and arrival)
  if not exists then redis.call('XDEL', call.keys.arrivals, '0-' .. ff.digits(arrival)) end
end

-- Whether what has left its holder was taken from it: storage/wake.py.
local function taken(run)
  local outcome = run.terminal_outcome
  return run.lifecycle_phase == 'active' or outcome == 'cancelled' or outcome == 'expired'
end

-- Move one execution from its old record (case.run) to its new one (case.staged); either may be missing.
local function store(space, case)
  local call, keys, id, old_run, new_run = space.call, space.keys, case.id, case.run, case.staged
  if new_run == 'gone' then new_run = false end
  local run, arrival = new_run or old_run, case.arrival
  ff.enter(call, id)
  local was, old_score, old_state, old_due, old_holder, old_claim = false, 0, '', 0, '', ''
  if old_run then was, old_score, old_state, old_due, old_holder, old_claim = ff.placement(old_run) end
  local is, score, state, due, holder, claim = false, 0, '', 0, '', ''
  if new_run then is, score, state, due, holder, claim = ff.placement(new_run) end
  case.run, case.staged = new_run, false
  if not old_run or not new_run then move_existence(call, run, id, arrival, new_run) end
  if new_run then
    local hot, rest = space:bytes_of(new_run)
    ff.put_value(call, ff.keys.execution(id), ff.head_of(new_run, arrival, case.told) .. hot .. rest)
  end
  if state ~= old_state then
    ff.note_move(call, run.lane_id .. '\0' .. run.namespace .. '\0' .. old_state .. '\0' .. state, arrival, id)
  end
  local moved, wake = is ~= was or (is and score ~= old_score), is and not (was and not old_run.grant[1])
  if moved or wake then
    local route = ff.route_of(run)
    if moved then ff.put_member(call, keys.route(run.lane_id, route), id, is and score) end
    if is then ff.put_route(call, run.lane_id, route) end
    ff.touch_queue(space, run.lane_id, route, wake and run.namespace)
  end
  if due ~= old_due then
    ff.put_member(call, keys.due, id, due ~= 0 and due)
    if due ~= 0 and (old_due == 0 or due < old_due) then ff.note_due(call, id, due) end
  end
  -- In a group its worker may have it back already, under another lease.
  local left = holder ~= old_holder or (old_run and new_run and old_run.current_lease_epoch ~= new_run.current_lease_epoch)
  if old_holder ~= '' and left and taken(run) then ff.note_topic(call, 'worker:' .. old_holder, run.namespace) end
  if holder ~= old_holder or claim ~= old_claim then
    if old_holder ~= '' and old_holder ~= holder then ff.put_lease(call, keys.leases(old_holder), id, false) end
    if holder ~= '' then ff.put_lease(call, keys.leases(holder), id, claim) end
  end
  local old_tags, tags = old_run and old_run.tags, new_run and new_run.tags
  if old_tags ~= tags and ((old_tags and old_tags[1]) or (tags and tags[1])) then
    move_tags(call, run, id, old_tags, tags, arrival)
  end
  ff.note_change(call, id)
end

-- The positions of the newest lines stand in the record; now and then they move to a list.
local function note_position(case, seq, position)
  case.told = case.told == '' and position or case.told .. ' ' .. position
  if seq % ff.TOLD ~= 0 then return end
  local positions = {}
  for each in string.gmatch(case.told, '%d+') do positions[#positions + 1] = each end
  redis.call('RPUSH', ff.keys.history(case.id), unpack(positions))
  case.told = ''
end

local function tell(space)
  local events = space.events
  for i = 1, space.told, 3 do
    local case = events[i]
    if not case.arrival then case.arrival = ff.append(space, space.keys.arrivals, 'id', case.id) end
    note_position(case, events[i + 1], ff.append_text(space, space.keys.feed, 'e', events[i + 2]))
    local run = case.staged
    if not run or run == 'gone' then run = case.run end
    ff.note_topic(space.call, 'feed', run.namespace)
  end
end

-- What besides the record itself follows from writing a record of a kind: ff.after_put.<kind>(space, staged).
ff.after_put = {}

function ff.after_put.memo(space, staged)
  redis.call('ZADD', space.keys.memos, staged.record.expires_at, staged.key)
end

function ff.after_put.lane(space, staged)
  space.call.queues = nil
  redis.call('PUBLISH', ff.keys.channel('lane:' .. staged.a), '')
end

function ff.after_put.step(_, staged)
  local step = staged.record
  redis.call('ZADD', ff.keys.steps(staged.a), step.call_index, staged.b)
  redis.call('HSET', ff.keys.heads(staged.a), staged.b, cmsgpack.pack({step.at, step.encoding, #step.result}))
end

-- The inbox of everybody, and that of its namespace, have a waitpoint at the same position.
function ff.after_put.waitpoint(space, staged)
  local keys, member = space.keys, staged.a .. '\0' .. staged.b
  local mine = keys.of_namespace(space:find(staged.a).namespace, 'inbox')
  if staged.record.state == 'closed' then
    redis.call('ZREM', keys.inbox, member)
    redis.call('ZREM', mine, member)
  elseif not redis.call('ZSCORE', keys.inbox, member) then
    local position = ff.next_in_inbox(space)
    redis.call('ZADD', keys.inbox, position, member)
    redis.call('ZADD', mine, position, member)
  end
end

-- What follows from a record and the one that it replaces: ff.before_put.<kind>(space, staged).
ff.before_put = {}

function ff.before_put.worker(space, staged)
  local value = redis.call('HGET', staged.key, staged.field)
  local known = value and ff.unpack('Worker', value) or nil
  if known or staged.record then ff.index_worker(space.keys, known, staged.record or nil) end
end

local function write(space, staged)
  local key, field, record = staged.key, staged.field, staged.record
  local before, after = ff.before_put[staged.kind], ff.after_put[staged.kind]
  if before then before(space, staged) end
  if not record then
    if field then redis.call('HDEL', key, field) else redis.call('DEL', key) end
    if staged.kind == 'step' then
      redis.call('ZREM', ff.keys.steps(staged.a), field)
      redis.call('HDEL', ff.keys.heads(staged.a), field)
    end
    return
  end
  local packed = staged.packed or ff.pack(record)
  if field then redis.call('HSET', key, field, packed) else redis.call('SET', key, packed) end
  if after then after(space, staged) end
end

-- Write everything that the step staged; executions wait until the call ends (writes.lua).
function ff.flush(space)
  tell(space)
  local order, effects = space.order, space.effects
  for i = 1, space.ordered do store(space, order[i]) end
  for i = 1, #space.places do write(space, space.staged[space.places[i]]) end
  for i = 1, space.emitted, 4 do ff.effects[effects[i]](space, effects[i + 1], effects[i + 2], effects[i + 3]) end
  ff.clear(space)
end
