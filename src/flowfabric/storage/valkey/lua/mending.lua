-- Where an execution belongs: every entry of an index that follows from its record. `ff.store` moves entries from one
-- record to the next; here they are all named at once, for repair.

-- Each is {key, member, score} of a sorted set, or {key, member, value, hash = true}.
function ff.belongs(space, run, arrival)
  local keys, id = space.keys, run.execution_id
  local claimable, score, state, due, holder, claim = ff.placement(run)
  local namespace, uuid = run.namespace, string.sub(id, -36)
  local places = {{ff.keys.partition(id), uuid, 0}, {ff.keys.partition_of(id, namespace), uuid, 0}}
  local function listed(key) places[#places + 1] = {key, id, arrival} end
  for _, key in ipairs(ff.lists(keys, run.lane_id, namespace, state)) do listed(key) end
  if claimable then places[#places + 1] = {keys.route(run.lane_id, ff.route_of(run)), id, score} end
  if due ~= 0 then places[#places + 1] = {keys.due, id, due} end
  if holder ~= '' then places[#places + 1] = {keys.leases(holder), id, claim, hash = true} end
  if run.flow_id ~= '' then
    listed(keys.flow(run.flow_id))
    listed(keys.of_namespace(namespace, 'flow:' .. run.flow_id))
  end
  for _, tag in ipairs(run.tags) do
    listed(keys.tag(tag[1], tag[2]))
    listed(keys.of_namespace(namespace, 'tag:' .. tag[1] .. '\0' .. tag[2]))
  end
  return places
end

-- What an index says in the place of an entry; nil when it says nothing.
function ff.entry(place)
  if place.hash then return redis.call('HGET', place[1], place[2]) or nil end
  local score = redis.call('ZSCORE', place[1], place[2])
  return score and tonumber(score) or nil
end

function ff.put_entry(place)
  if place.hash then
    redis.call('HSET', place[1], place[2], place[3])
  else
    redis.call('ZADD', place[1], place[3], place[2])
  end
end

-- Whether a waitpoint stands in the inbox: as long as it is not closed.
function ff.in_inbox(waitpoint)
  return waitpoint ~= nil and waitpoint.state ~= 'closed'
end
