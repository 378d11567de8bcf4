-- Which indexes hold an execution, and under which keys. All of that stands here: the writer (store.lua) moves entries
-- from one record to the next, and repair (mending.lua) compares them with the record. What the scores are is said by
-- model/indexes.py, word for word.

function ff.claimable(run)
  if run.lifecycle_phase == 'runnable' then return run.eligibility_state == 'eligible_now' end
  return run.lifecycle_phase == 'active' and run.ownership_state ~= 'leased'
end

function ff.score(run)
  return run.created_at - run.priority * ff.limits.PRIORITY_STEP
end

function ff.granted(run, now)
  local grant = run.grant[1]
  return grant ~= nil and grant.expires_at >= now
end

-- The earliest of all its deadlines; 0 when there is none.
function ff.due_at(run)
  if run.lifecycle_phase == 'terminal' then
    return math.min(run.completed_at + run.retention_ms, ff.limits.MAX_INT)
  end
  local due, attempt_due, execution_due = nil, run.attempt_deadline_at, run.execution_deadline_at
  if run.ownership_state == 'leased' then due = run.lease_expires_at end
  if run.eligibility_state == 'not_eligible_until_time' then due = math.min(due or run.delay_until, run.delay_until) end
  if attempt_due ~= 0 and (not due or attempt_due < due) then due = attempt_due end
  if execution_due ~= 0 and (not due or execution_due < due) then due = execution_due end
  if ff.quiet(run) then return due or 0 end
  local timeout, pending = run.suspension_timeout_at, run.pending_waitpoints
  if timeout ~= 0 and (not due or timeout < due) then due = timeout end
  for i = 1, #pending do due = math.min(due or pending[i][2], pending[i][2]) end
  return due or 0
end

-- claimable, score (of what is), public state, due_at, holder, claim id
function ff.placement(run)
  if run.ownership_state == 'leased' then
    return false, 0, run.public_state, ff.due_at(run), run.current_worker_instance_id, run.claim_id
  end
  local claimable = ff.claimable(run)
  return claimable, claimable and ff.score(run) or 0, run.public_state, ff.due_at(run), '', ''
end

-- The queue inside its lane: kind \0 capabilities.
function ff.route_of(run)
  return run.execution_kind .. '\0' .. table.concat(run.required_capabilities, ',')
end

-- Lists come in pairs: that of everybody, and that of its namespace.

function ff.state_lists(keys, lane, namespace, state)
  return {keys.state(lane, state), keys.of_namespace(namespace, 'any:' .. state)}
end

function ff.tag_lists(keys, namespace, tag)
  return {keys.tag(tag[1], tag[2]), keys.of_namespace(namespace, 'tag:' .. tag[1] .. '\0' .. tag[2])}
end

function ff.flow_lists(keys, run)
  if run.flow_id == '' then return {} end
  return {keys.flow(run.flow_id), keys.of_namespace(run.namespace, 'flow:' .. run.flow_id)}
end

-- The ids of its partition, which are kept without the name of the partition.
function ff.id_lists(run)
  return {ff.keys.partition(run.execution_id), ff.keys.partition_of(run.execution_id, run.namespace)}
end

function ff.short_id(id) return string.sub(id, -36) end

-- Every entry that follows from a record: {key, member, score} of a sorted set, or {key, member, value, hash = true}.
function ff.belongs(space, run, arrival)
  local keys, id, places = space.keys, run.execution_id, {}
  local claimable, score, state, due, holder, claim = ff.placement(run)
  local function listed(lists, member, number)
    for i = 1, #lists do places[#places + 1] = {lists[i], member, number} end
  end
  listed(ff.id_lists(run), ff.short_id(id), 0)
  listed(ff.state_lists(keys, run.lane_id, run.namespace, state), id, arrival)
  if claimable then listed({keys.route(run.lane_id, ff.route_of(run))}, id, score) end
  if due ~= 0 then listed({keys.due}, id, due) end
  if holder ~= '' then places[#places + 1] = {keys.leases(holder), id, claim, hash = true} end
  listed(ff.flow_lists(keys, run), id, arrival)
  for _, tag in ipairs(run.tags) do listed(ff.tag_lists(keys, run.namespace, tag), id, arrival) end
  return places
end
