-- What a claim answers for each execution: {packed record, input, policy [, suspension, signals, steps]}.
-- Python builds the task from it (operations/tasks.py), with the same code as every other store.

local function signals_of(run, suspension)
  local found = {}
  for i = 1, #suspension.satisfiers do
    local ref = suspension.satisfiers[i]
    local key, field = ff.keys.place('signal', run.execution_id, ref[1], ref[2])
    local value = redis.call('HGET', key, field)
    if value then found[#found + 1] = value end
  end
  return found
end

-- The first steps by call, as far as they fit into a task.
local function steps_of(run)
  local values, steps = redis.call('HVALS', (ff.keys.place('step', run.execution_id, ''))), {}
  for i = 1, #values do
    local step = ff.unpack('Step', values[i])
    steps[i] = {step.call_index, step.name, #step.result, values[i]}
  end
  table.sort(steps, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[2] < b[2]
  end)
  local room, shown = ff.limits.MAX_STEP_BYTES_IN_TASK, {}
  for i = 1, #steps do
    room = room - steps[i][3]
    if room < 0 then break end
    shown[i] = steps[i][4]
  end
  return shown
end

-- The parts of the task of a leased execution; the draft must be put, and is not changed any more.
function ff.task_parts(space, run)
  space:find_with_payload(run.execution_id)
  local known = space.loaded[run.execution_id]
  local parts = {space:bytes_of(run), known.input, known.policy}
  local resumed = run.claim_type == 'resumed' and run.current_suspension_id ~= ''
  if not resumed and run.step_count == 0 then return parts end
  parts[4], parts[5], parts[6] = '', {}, {}
  if resumed then
    local suspension = space:get('suspension', run.execution_id)
    parts[4], parts[5] = ff.pack(suspension), signals_of(run, suspension)
  end
  if run.step_count ~= 0 then parts[6] = steps_of(run) end
  return parts
end
