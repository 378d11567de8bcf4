-- Executions: [arrival number, length of the head, positions, hot, rare, fixed fields], as executions.py describes them.
--
-- In a draft the packed rest (`tail`) and the packed head stand first, then the hot fields. When another field is asked for, the rest is
-- unpacked into the places behind them, and `tail` is false. The arrival number has nine bytes always, positions are
-- text of less than 256 bytes, and arrays of hot fields begin with three bytes, of which the last is their number:
-- everything begins at a known place.

local HOT, RARE, SIZE = ff.parts.hot, ff.parts.rare, ff.sizes.Execution -- where each part ends
local at = ff.fields.Execution
local TAIL, POLICY = at.tail, at.policy
local EMPTY = '\144'

local nothing = {}

-- The policy of executions that have none of their own, and the attempt of those that have not run.
function ff.no_policy()
  nothing.policy = nothing.policy or ff.new('Policy', {})
  return nothing.policy
end

function ff.no_attempt()
  nothing.attempt = nothing.attempt or ff.new('Attempt', {})
  return nothing.attempt
end

-- No rare field is set. Asking saves time where many of them would be read, or set to nothing; it is never necessary.
function ff.quiet(run)
  return run.rest < 2
end

-- Its policy, without unpacking anything when there is none of its own.
function ff.policy_of(run)
  return run.rest == 0 and ff.no_policy() or run.policy
end

local function spread(run, from, to, values)
  local defaults = ff.defaults.Execution
  for place = from, to do
    local value = values[place - from + 1]
    if value == nil then value = defaults[place] end
    rawset(run, place, value)
  end
end

local function expand(run)
  local rare, fixed = cmsgpack.unpack(run.tail)
  run.tail, run.rest = false, 2
  spread(run, HOT + 1, RARE, rare)
  spread(run, RARE + 1, SIZE, fixed)
  local policy = rawget(run, POLICY)
  rawset(run, POLICY, policy[1] and ff.grown('Policy', policy) or ff.no_policy())
end

local REST = at.rest

local function place_of(field)
  local place = at[field] or field
  if type(place) ~= 'number' then error('a Execution has no field ' .. tostring(field)) end
  return place
end

-- Whether a place belongs to a rare field, and none of them is set.
local function unset(run, place)
  return place > HOT and place <= RARE and rawget(run, REST) < 2 and rawget(run, TAIL)
end

local form, defaults = ff.forms.Execution, ff.defaults.Execution
form.hot = HOT

form.__index = function(run, field)
  local place = place_of(field)
  if unset(run, place) then return defaults[place] end
  if place > HOT and place <= SIZE and rawget(run, TAIL) then expand(run) end
  return rawget(run, place)
end

form.__newindex = function(run, field, value)
  local place = place_of(field)
  if unset(run, place) and (value == defaults[place] or (type(value) == 'table' and value[1] == nil)) then return end
  if place > HOT and place <= SIZE and rawget(run, TAIL) then expand(run) end
  rawset(run, place, value)
end

-- The last place that does not hold its default, or the one before the first.
local function last_set(array, from, to, defaults)
  for place = to, from, -1 do
    local value = array[place]
    if value ~= defaults[place] and not (type(value) == 'table' and value[1] == nil) then return place end
  end
  return from - 1
end

local function pack_tail(run)
  local fixed, plain = {unpack(run, RARE + 1, SIZE)}, run.policy == nothing.policy
  if plain then fixed[POLICY - RARE] = {} end
  local last = last_set(run, HOT + 1, RARE, ff.defaults.Execution)
  run.rest = last > HOT and 2 or plain and 0 or 1
  local rare = last > HOT and cmsgpack.pack({unpack(run, HOT + 1, last)}) or EMPTY
  return rare .. cmsgpack.pack(fixed)
end

-- The packed hot fields, and the packed rest; `rest` among the hot ones follows from it. From then on the draft is like
-- one that was read: copies of it unpack the rest again.
function ff.pack_execution(run)
  if not run.tail then run.tail = pack_tail(run) end
  if not run.head then run.head = ff.pack_head(run) end
  return ff.pack_hot(run), run.tail
end

-- The case of a stored execution (space.lua).
function ff.execution_from(id, value)
  local high, low, size = struct.unpack('>I4I4xI4', value, 3)
  local start = 17 + string.byte(value, 17)
  local head = string.sub(value, start + 4, start + 3 + size)
  local run = ff.read_hot(id, head, cmsgpack.unpack_limit(value, string.byte(value, start + 3), start + 3))
  run.tail = string.sub(value, run.tail + 1) -- where the next part begins came first
  return {
    id, run, high * 4294967296 + low, string.sub(value, 18, start), false, false, false, false, false, false,
  }
end

-- The packed fields that never change, of an execution as it is stored.
function ff.fixed_part(run)
  return string.sub(run.tail, cmsgpack.unpack_one(run.tail, 0) + 1)
end

-- What `rest` is of an execution with this packed rest (executions.py).
function ff.rest_of(tail)
  if string.sub(tail, 1, 1) ~= EMPTY then return 2 end
  return string.sub(tail, 3, 3) == EMPTY and 0 or 1
end

-- What a stored execution begins with.
function ff.head_of(run, arrival, told)
  return '\150\207' .. struct.pack('>I4I4BI4', math.floor(arrival / 4294967296), arrival % 4294967296, 206, #run.head)
    .. '\217' .. string.char(#told) .. told
end
