-- What a claim answers for each execution: id, packed hot fields, input, policy, and '' or {suspension, signals, steps}.
-- Python builds the task from it (operations/tasks.py), with the same code as every other store.

local PAGE = 100

local function signals_of(space, run, suspension)
  local found = {}
  for i = 1, #suspension.satisfiers do
    local ref = suspension.satisfiers[i]
    local key, field = space.keys.place('signal', run.execution_id, ref[1], ref[2])
    local value = redis.call('HGET', key, field)
    if value then found[#found + 1] = value end
  end
  return found
end

-- The first steps by call, as far as they fit into a task; no more are read than one too many.
local function steps_of(space, run)
  local key = space.keys.place('step', run.execution_id, '')
  local order, room, shown = ff.keys.steps(run.execution_id), ff.limits.MAX_STEP_BYTES_IN_TASK, {}
  while true do
    local names = redis.call('ZRANGE', order, #shown, #shown + PAGE - 1)
    for i = 1, #names do
      local value = redis.call('HGET', key, names[i])
      room = room - #ff.unpack('Step', value).result
      if room < 0 then return shown end
      shown[#shown + 1] = value
    end
    if #names < PAGE then return shown end
  end
end

local function more_of(space, run)
  local resumed = run.claim_type == 'resumed' and run.current_suspension_id ~= ''
  if not resumed and run.step_count == 0 then return '' end
  local more = {'', {}, {}}
  if resumed then
    local suspension = space:get('suspension', run.execution_id)
    more[1], more[2] = ff.pack(suspension), signals_of(space, run, suspension)
  end
  if run.step_count ~= 0 then more[3] = steps_of(space, run) end
  return more
end

-- Append the parts of the task of a leased execution; the draft must be put, and is not changed any more.
function ff.task_parts(space, run, parts)
  local case, last = space.cases[run.execution_id], #parts
  if not case.policy then space:find_with_payload(run.execution_id) end
  parts[last + 1], parts[last + 2], parts[last + 3] = run.execution_id, (space:bytes_of(run)), case.input
  parts[last + 4], parts[last + 5] = case.policy, more_of(space, run)
  return parts
end
