-- ff_sum_up: compare the totals with the tally, and put them right if asked to.
--
-- Keys      a home
-- Command   none: time, "1" to put them right
-- Reply     the namespaces whose totals were wrong; '' is all of them together
-- Keeps     the tally is what counts; all of it is of one moment

local function implied(keys)
  local flat, sums = redis.call('HGETALL', keys.tally), {}
  for i = 1, #flat, 2 do
    local namespace, was, state = string.match(flat[i], '^.-%z(.-)%z(.-)%z(.*)$')
    for _, of in ipairs({'', namespace}) do
      local sum = sums[of] or {}
      sums[of] = sum
      sum[was] = (sum[was] or 0) - flat[i + 1]
      sum[state] = (sum[state] or 0) + flat[i + 1]
    end
  end
  return sums
end

local function kept(key)
  local flat, sum = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do
    local was, state = string.match(flat[i], '^(.-)%z(.*)$')
    sum[was] = (sum[was] or 0) - flat[i + 1]
    sum[state] = (sum[state] or 0) + flat[i + 1]
  end
  return sum
end

local function equal(left, right)
  for state, n in pairs(left) do
    if state ~= '' and n ~= (right[state] or 0) then return false end
  end
  return true
end

local function sum_up(keys, fix)
  local wrong, sums = {}, implied(keys)
  for namespace, sum in pairs(sums) do
    local key = keys.total(namespace)
    local known = kept(key)
    if not (equal(sum, known) and equal(known, sum)) then
      wrong[#wrong + 1] = namespace
      if fix then
        redis.call('DEL', key)
        for state, n in pairs(sum) do
          if state ~= '' and n ~= 0 then redis.call('HSET', key, '\0' .. state, n) end
        end
      end
    end
  end
  return wrong
end

redis.register_function('ff_sum_up', function(names, args)
  return sum_up(ff.keys.at(names[1]), args[2] == '1')
end)
