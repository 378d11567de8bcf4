-- Ways out of a suspension, shared by signals, operators and timers: model/machine/suspension.py.

-- The suspension that has not ended, or nil.
function ff.open_suspension(space, run)
  local suspension = space:get('suspension', run.execution_id)
  return suspension and suspension.closed_at == 0 and suspension or nil
end

-- What a suspension keeps about the signals that satisfied it.
function ff.satisfied_by(space, condition, closer)
  local refs = ff.satisfiers(condition)
  for i = 1, #refs do
    local waitpoint_id, number = string.match(refs[i], '^(.*):(%d+)$')
    refs[i] = {waitpoint_id, tonumber(number)}
  end
  return {satisfied_at = space.now, closer_signal_id = closer.signal_id, satisfiers = refs}
end

-- The signals that satisfied a suspension; those that were trimmed since are left out.
function ff.satisfying(space, run, suspension)
  local found = {}
  for i = 1, #suspension.satisfiers do
    local ref = suspension.satisfiers[i]
    found[#found + 1] = space:get('signal', run.execution_id, ref[1], ref[2])
  end
  return found
end

-- Name a suspension in the history, without what the signals said.
function ff.wait_details(suspension)
  local details = {{'suspension_id', suspension.suspension_id}, {'waitpoint_id', suspension.waitpoint_id}}
  if suspension.closer_signal_id ~= '' then details[#details + 1] = {'signal_id', suspension.closer_signal_id} end
  if suspension.step_name ~= '' then details[#details + 1] = {'step_name', suspension.step_name} end
  return details
end

-- Store what ended a suspension as the result of its step, so that no later crash loses it; gives a draft.
-- The document is written when the step is read (codec.py): here only its parts are kept, [reason, [signal ...]], and
-- in the place of the encoding, which is JSON, how many bytes it has at least.
function ff.keep_wait(space, run, suspension)
  local name = suspension.step_name
  if name == '' or space:get('step', run.execution_id, name) then return run end
  local signals, size = ff.satisfying(space, run, suspension), 0
  local parts = {'\146', cmsgpack.pack(ff.resume_reasons[suspension.close_reason]), ff.list_head(#signals)}
  for i = 1, #signals do
    parts[i + 3] = ff.pack(signals[i])
    size = size + #signals[i].payload
  end
  local step = ff.new('Step', {
    name = name, call_index = run.next_step_index, attempt_index = run.attempt.index, at = space.now,
    encoding = size, result = table.concat(parts),
  })
  space:put('step', step, run.execution_id, name)
  return ff.replace(run, {step_count = run.step_count + 1, next_step_index = run.next_step_index + 1})
end

-- How many bytes the result of a step has, at least.
function ff.step_size(step)
  return type(step.encoding) == 'number' and step.encoding or #step.result
end

-- The beginning of a packed list.
function ff.list_head(count)
  if count < 16 then return string.char(144 + count) end
  if count < 65536 then return '\220' .. struct.pack('>I2', count) end
  return '\221' .. struct.pack('>I4', count)
end

-- T20, T21: close the suspension and its waitpoints; the work can go on at once, or after a delay.
function ff.end_suspension(space, run, close_reason, actor, delay_ms, changes)
  local closed = ff.close_suspension(space, run, close_reason, changes)
  local row, delay_until = ff.T.RESUMED, 0
  if delay_ms ~= 0 then row, delay_until = ff.T.RESUMED_LATER, math.min(space.now + delay_ms, ff.limits.MAX_INT) end
  local resumed = ff.move(ff.keep_wait(space, run, closed), row, space.now, {
    suspension_timeout_at = 0, delay_until = delay_until,
  })
  local reason = ff.resume_reasons[close_reason]
  return space:put_execution(resumed, row.event, run.public_state, actor, reason, nil, ff.wait_details(closed))
end
