-- ff_count: count some executions by lane, namespace and state, as they were at a position of the feed.
--
-- Keys      a home
-- Command   none: time, position, count those that arrived after this number, up to that number, at most so many
-- Reply     the last number that was counted ('' at the end), how many were counted, then field, count ...
-- Keeps     what has changed since is counted as it was: its history tells. So counting may take many calls while
--           others write, and the difference to the tally of that moment is the tally's error, then and now.

local TO_STATE = 14 -- in a line of the feed

-- Positions of its history, the newest first: those in its record, then those in the list.
local function backwards(id, told)
  local newest, at = {}, 0
  for each in string.gmatch(told, '%d+') do newest[#newest + 1] = each end
  return function()
    if newest[1] then return table.remove(newest) end
    at = at - 1
    return redis.call('LINDEX', ff.keys.history(id), at)
  end
end

local function state_at(space, run, position)
  local case = space.cases[run.execution_id]
  local before = backwards(case.id, case.told)
  local line = before()
  if not line or tonumber(line) <= position then return run.public_state end
  while line and tonumber(line) > position do line = before() end
  local number = '0-' .. (line or '0')
  local entry = redis.call('XRANGE', space.keys.feed, number, number)[1]
  if not entry then return run.public_state end
  return cmsgpack.unpack(entry[2][2])[TO_STATE]
end

redis.register_function{
  function_name = 'ff_count', flags = {'no-writes'},
  callback = function(names, args)
    local space, position = ff.new_space(ff.new_call(names[1], args[1])), tonumber(args[2])
    local entries = redis.call('XRANGE', space.keys.arrivals, '(0-' .. args[3], '0-' .. args[4], 'COUNT', args[5])
    local counts, fields = {}, {}
    for i = 1, #entries do
      local run = space:find(entries[i][2][2])
      if run then
        local field = run.lane_id .. '\0' .. run.namespace .. '\0' .. state_at(space, run, position)
        if not counts[field] then fields[#fields + 1] = field end
        counts[field] = (counts[field] or 0) + 1
      end
    end
    local reply = {entries[1] and string.sub(entries[#entries][1], 3) or '', #entries}
    for i = 1, #fields do
      reply[#reply + 1] = fields[i]
      reply[#reply + 1] = counts[fields[i]]
    end
    return reply
  end,
}
