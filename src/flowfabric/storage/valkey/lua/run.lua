-- How a function is called and answers.
--
--   FCALL ff_x 1 <home> <time> <chance> <packed fields of the command, one after another> [blob ...]
--
-- Home and time: keys.lua, numbers.lua. The answer is {1, what the step returned ...} or {0, code, text, field,
-- detail ...}; on a cluster {3, notes, ...} and {2, notes, code, ...}. Anything else is an error.

local NONE = {}

-- Refuse: the step ends here and nothing that it staged is written.
function ff.refuse(code, details, field, text)
  error({refused = true, code = code, details = details or {}, field = field or '', text = text or ''})
end

-- Refuse, but keep what is staged: only for the three cases that model/machine names KeptRefusal.
function ff.refuse_and_keep(code, details)
  error({refused = true, kept = true, code = code, details = details or {}, field = '', text = ''})
end

local function refusal(space, fault)
  space.call.queues = nil -- what was taken from them is not taken
  if type(fault) ~= 'table' or not fault.refused then error(fault, 0) end
  if fault.kept then ff.flush(space) end
  if space.numbers then return {2, ff.notes(space), fault.code, fault.text, fault.field, unpack(fault.details)} end
  return {0, fault.code, fault.text, fault.field, unpack(fault.details)}
end

function ff.clock(text)
  if text ~= '' then return tonumber(text) end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local kinds, steps = {}, {} -- by the name of a function: the name of its kind of command, and its step

local function decide(call, name, chance, fields, blobs)
  local space = ff.new_space(call, chance)
  local done, answer = pcall(steps[name], space, ff.as(kinds[name], {cmsgpack.unpack(fields)}), blobs)
  if not done then return refusal(space, answer) end
  ff.flush(space)
  if space.numbers then return {3, ff.notes(space), unpack(answer or NONE)} end
  return {1, unpack(answer or NONE)}
end

-- Register a function for a kind of command. step(space, command, blobs) returns a list of reply parts, or nothing.
-- Flags are the server's: 'allow-oom' for what must run when no memory is left.
function ff.operation(name, kind, step, flags)
  kinds[name], steps[name] = kind, step
  redis.register_function{function_name = name, flags = flags or {}, callback = function(keys, args)
    local call = ff.new_call(keys[1], args[1])
    local done, answer = pcall(decide, call, name, tonumber(args[2]), args[3], args[4] and {unpack(args, 4)} or NONE)
    ff.settle(call)
    if not done then error(answer, 0) end
    return answer
  end}
end

-- FCALL ff_several 1 <home> <time> (<function> <chance> <packed fields> <number of blobs> <blob ...>)...: decide commands
-- one after the other, as if each had been called by itself; only on a single server. Reply: one answer for each, an error
-- in its place.
redis.register_function('ff_several', function(keys, args)
  local call, answers, at = ff.new_call(keys[1], args[1]), {}, 2
  call.tasks = 16
  while args[at] do
    local last = at + 3 + tonumber(args[at + 3])
    local blobs = last > at + 3 and {unpack(args, at + 4, last)} or NONE
    local done, answer = pcall(decide, call, args[at], tonumber(args[at + 1]), args[at + 2], blobs)
    if not done then answer = {err = 'ERR ' .. tostring(answer)} end
    answers[#answers + 1] = answer
    at = last + 1
  end
  ff.settle(call)
  return answers
end)

-- An integer as text: plain concatenation would shorten it to 14 digits, and '%.0f' takes three times as long.
function ff.digits(number)
  return string.format('%d', number)
end

local FOLLOWING = {
  ['0'] = '1', ['1'] = '2', ['2'] = '3', ['3'] = '4', ['4'] = '5', ['5'] = '6', ['6'] = '7', ['7'] = '8', ['8'] = '9',
  ['9'] = 'a', a = 'b', b = 'c', c = 'd', d = 'e', e = 'f',
}

-- The n-th id of one operation, derived from its random base (model/ids.py).
function ff.mint(base, n)
  if n == 0 then return base end
  local last = n == 1 and FOLLOWING[string.sub(base, -1)]
  if last then return string.sub(base, 1, 35) .. last end
  return string.sub(base, 1, 28) .. string.format('%08x', (tonumber(string.sub(base, 29), 16) + n) % 4294967296)
end

redis.register_function{
  function_name = 'ff_version', flags = {'no-writes'},
  callback = function() return {LIBRARY_VERSION, DIGEST} end,
}
