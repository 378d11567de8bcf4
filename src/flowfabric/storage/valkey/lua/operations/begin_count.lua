-- ff_begin_count: a moment against which executions can be counted later, with what the tally said at that moment.
--
-- Keys      a home
-- Command   none: time
-- Reply     last position of the feed, last number of arrival, number of executions, then the tally: field, count ...
-- Keeps     all of it is of one moment

local function last(stream)
  local entry = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
  return entry and string.sub(entry[1], 3) or '0'
end

redis.register_function{
  function_name = 'ff_begin_count', flags = {'no-writes'},
  callback = function(names)
    local keys = ff.keys.at(names[1])
    return {
      last(keys.feed), last(keys.arrivals), redis.call('XLEN', keys.arrivals), unpack(redis.call('HGETALL', keys.tally)),
    }
  end,
}
