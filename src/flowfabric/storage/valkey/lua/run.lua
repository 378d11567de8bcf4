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
  local call = space.call
  call.queues = nil -- what was taken from them is not taken
  if type(fault) ~= 'table' or not fault.refused then
    call.space, call.records = nil, {} -- nobody knows how far it came: those behind it read what is stored
    ff.settle(call)
    error(fault, 0)
  end
  if fault.kept then ff.flush(space) else ff.forget(space) end
  if space.numbers then return {2, ff.notes(space), fault.code, fault.text, fault.field, unpack(fault.details)} end
  return {0, fault.code, fault.text, fault.field, unpack(fault.details)}
end

function ff.clock(text)
  if text ~= '' then return tonumber(text) end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- By the name of a function: the name of its kind of command, its step, and where its commands name their execution.
local kinds, steps, named = {}, {}, {}

local COUNTS = {['0'] = 0, ['1'] = 1, ['2'] = 2} -- what is asked for often

local function command_of(name, fields)
  return ff.as(kinds[name], {cmsgpack.unpack(fields)})
end

local function answer_of(space, ...)
  ff.flush(space)
  if space.numbers then return {3, ff.notes(space), ...} end
  return {1, ...}
end

local function take_step(space, step, command, blobs)
  return answer_of(space, step(space, command, blobs))
end

-- Decide a command: whether it was decided, and the answer or the error.
local function decide(call, name, chance, command, blobs)
  local space = ff.space_for(call, chance)
  local done, answer = pcall(take_step, space, steps[name], command, blobs)
  if not done then done, answer = pcall(refusal, space, answer) end
  return done, answer
end

-- Register a function for a kind of command. step(space, command, blobs) returns the parts of the reply, one by one.
-- Flags are the server's: 'allow-oom' for what must run when no memory is left.
function ff.operation(name, kind, step, flags)
  kinds[name], steps[name], named[name] = kind, step, ff.fields[kind].execution_id
  redis.register_function{function_name = name, flags = flags or {}, callback = function(keys, args)
    local call = ff.new_call(keys[1], args[1])
    local command, blobs = command_of(name, args[3]), args[4] and {unpack(args, 4)} or NONE
    local done, answer = decide(call, name, args[2], command, blobs)
    ff.settle(call, true)
    if not done then error(answer, 0) end
    return answer
  end}
end

-- Unpack the commands of a call, and read what they are about at once.
local function commands_of(call, args)
  local commands, ids, at, count, known, name = {}, {}, 2, 0, 0, args[2]
  while name do
    local command, place = command_of(name, args[at + 2]), named[name]
    count = count + 1
    commands[count] = command
    if place then
      known = known + 1
      ids[known] = command[place]
    elseif name == 'ff_claim' then
      ff.wish_of(call, command)
    end
    at = at + 4 + (COUNTS[args[at + 3]] or tonumber(args[at + 3]))
    name = args[at]
  end
  if known > 0 then ff.read_ahead(call, ids) end
  return commands
end

-- FCALL ff_several 1 <home> <time> (<function> <chance> <packed fields> <number of blobs> <blob ...>)...: decide commands
-- one after the other, as if each had been called by itself; only on a single server. Reply: one answer for each, an error
-- in its place.
redis.register_function('ff_several', function(keys, args)
  local call, answers, at = ff.new_call(keys[1], args[1]), {}, 2
  local commands = commands_of(call, args)
  for i = 1, #commands do
    local last = at + 3 + (COUNTS[args[at + 3]] or tonumber(args[at + 3]))
    local blobs = last > at + 3 and {unpack(args, at + 4, last)} or NONE
    local done, answer = decide(call, args[at], args[at + 1], commands[i], blobs)
    if not done then answer = {err = 'ERR ' .. tostring(answer)} end
    answers[i] = answer
    at = last + 1
  end
  ff.settle(call, true)
  return answers
end)

-- An integer as text: plain concatenation would shorten it to 14 digits, and '%.0f' takes three times as long.
function ff.digits(number)
  return string.format('%d', number)
end

-- An id of one operation, derived from its random base (model/ids.py).
function ff.mint(base, purpose)
  local digest, sub = redis.sha1hex(base .. ':' .. purpose), string.sub
  return sub(digest, 1, 8) .. '-' .. sub(digest, 9, 12) .. '-4' .. sub(digest, 13, 15) .. '-8' .. sub(digest, 16, 18) .. '-'
    .. sub(digest, 19, 30)
end

redis.register_function{
  function_name = 'ff_version', flags = {'no-writes'},
  callback = function() return {LIBRARY_VERSION, DIGEST} end,
}
