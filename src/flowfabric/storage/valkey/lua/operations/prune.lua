-- ff_prune: take out of one index what does not belong there.
--
-- Keys      the home of the index
-- Command   none: time, 1 to mend or 0 to look, what kind of index it is, its key, members ...
-- Reply     the members whose records do not say that they belong there, or that have no record
-- Keeps     indexes follow from records; each member is looked at and taken out in one step

-- Whether it is there still; it was seen a while ago.
local function is_there(kind, key, member)
  if kind == 'leases' then return redis.call('HEXISTS', key, member) == 1 end
  if kind == 'arrivals' then return redis.call('XRANGE', key, member, member)[1] ~= nil end
  return redis.call('ZSCORE', key, member) and true or false
end

local function remove(kind, key, member)
  if kind == 'leases' then return redis.call('HDEL', key, member) end
  if kind == 'arrivals' then return redis.call('XDEL', key, member) end
  return redis.call('ZREM', key, member)
end

-- The execution, if there is one here: what lies in another partition of a cluster cannot be seen, and is not indexed here.
local function find(space, id)
  local home = space.keys.home
  if home ~= ff.keys.SINGLE and 'ff:' .. (string.match(id, '^{[^}]*}:') or '') ~= home then return nil end
  return space:find(id)
end

-- A member of a sorted set or a hash.
local function is_listed(space, id, key)
  local run = find(space, id)
  if not run then return false end
  local places = ff.belongs(space, run, 0)
  for i = 1, #places do
    if places[i][1] == key then return true end
  end
  return false
end

-- By kind: whether a member belongs. Where members are no ids, what they say is taken apart here.
local BELONGS = {
  listed = is_listed,
  leases = is_listed,
  ids = function(space, member, key)
    return is_listed(space, string.match(key, '^ff:({[^}]*}:)') .. member, key)
  end,
  inbox = function(space, member, key)
    local id, waitpoint_id = string.match(member, '^(.-)%z(.*)$')
    local run, keys = id and find(space, id), space.keys
    if not run or (key ~= keys.inbox and key ~= keys.of_namespace(run.namespace, 'inbox')) then return false end
    return ff.in_inbox(space:get('waitpoint', id, waitpoint_id))
  end,
  arrivals = function(space, member, key)
    local entry = redis.call('XRANGE', key, member, member)[1]
    local id = entry and entry[2][2] or ''
    local case = find(space, id) and space.cases[id]
    return case and '0-' .. ff.digits(case.arrival) == member
  end,
}

redis.register_function('ff_prune', function(names, args)
  local space, fix, kind, key, strays = ff.new_space(ff.new_call(names[1], args[1])), args[2] == '1', args[3], args[4], {}
  for i = 5, #args do
    if not BELONGS[kind](space, args[i], key) and is_there(kind, key, args[i]) then
      strays[#strays + 1] = args[i]
      if fix then remove(kind, key, args[i]) end
    end
  end
  return strays
end)
