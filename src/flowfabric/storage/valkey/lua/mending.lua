-- Entries of indexes, for repair; which of them follow from a record says indexes.lua.

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
