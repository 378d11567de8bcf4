-- ff_correct_tally: take its error out of the tally.
--
-- Keys      a home
-- Command   none: time, then field, what to add ...
-- Reply     1
-- Keeps     what others count meanwhile: only differences are added

redis.register_function('ff_correct_tally', function(names, args)
  local tally = ff.keys.at(names[1]).tally
  for i = 2, #args, 2 do
    if redis.call('HINCRBY', tally, args[i], args[i + 1]) == 0 then redis.call('HDEL', tally, args[i]) end
  end
  return 1
end)
