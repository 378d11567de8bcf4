-- Where an execution belongs: every entry of an index that follows from its record. `ff.store` moves entries from one
-- record to the next; here they are all named at once, for repair.

-- Each is {key, member, score} of a sorted set, or {key, member, value, hash = true}.
function ff.belongs(space, run, arrival)
  local keys, id = space.keys, run.execution_id
  local claimable, score, state, due, holder, claim = ff.placement(run)
  local places = {
    {ff.keys.partition(id), string.sub(id, -36), 0},
    {keys.state(run.lane_id, state), id, arrival},
  }
  if claimable then places[#places + 1] = {keys.route(run.lane_id, ff.route_of(run)), id, score} end
  if due ~= 0 then places[#places + 1] = {keys.due, id, due} end
  if holder ~= '' then places[#places + 1] = {keys.leases(holder), id, claim, hash = true} end
  if run.flow_id ~= '' then places[#places + 1] = {keys.flow(run.flow_id), id, arrival} end
  local tags = run.tags
  for i = 1, #tags do places[#places + 1] = {keys.tag(tags[i][1], tags[i][2]), id, arrival} end
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
