-- ff_suspend_execution (T18, T19): give the lease back until a condition holds, or keep it when it holds already.
--
-- Keys      the execution
-- Command   Suspend
-- Reply     the packed answer (answers.lua), as it is remembered under the idempotency key
-- Keeps     one open suspension; a repeat with the same key gets the same answer, tokens and all

local function check_free(space, run, command)
  if command.attempt_index and command.attempt_index ~= run.attempt.index then
    ff.refuse('invalid_lease_for_suspend', {}, 'attempt_index')
  end
  if ff.open_suspension(space, run) then ff.refuse('already_suspended') end
  -- Nothing can store steps while it is suspended, so room that is there now is there when the wait ends.
  if command.step_name ~= '' and run.step_count >= ff.limits.MAX_STEPS
    and not space:get('step', run.execution_id, command.step_name) then
    ff.refuse('step_limit_exceeded', {ff.digits(ff.limits.MAX_STEPS)})
  end
end

local function timeout_of(space, run, command)
  if command.timeout_at then return math.max(command.timeout_at, 1) end -- 0 means that there is none
  local after = command.timeout_ms
  if not after and run.policy.suspension_timeout_ms ~= 0 then after = run.policy.suspension_timeout_ms end
  return after and math.min(space.now + after, ff.limits.MAX_INT) or 0
end

local function suspension_of(space, run, command)
  local timeout_at = timeout_of(space, run, command)
  if ff.needs_timeout(command.condition) and timeout_at == 0 then
    ff.refuse('invalid_input', {}, 'timeout_at', 'timeout_only_without_deadline')
  end
  local behavior = command.timeout_behavior or run.policy.suspension_timeout_behavior
  return ff.new('Suspension', {
    version = ff.RECORD_VERSION, suspension_id = command.suspension_id, attempt_index = run.attempt.index,
    waitpoint_id = command.waitpoints[1].waitpoint_id, waitpoint_key = '', additional = {},
    reason_code = command.reason_code, requested_by = command.requested_by, created_at = space.now,
    timeout_at = timeout_at,
    timeout_behavior = behavior == 'auto_resume' and 'auto_resume_with_timeout_signal' or behavior,
    condition = command.condition, resume_delay_ms = command.resume_delay_ms, step_name = command.step_name,
    continuation_metadata_pointer = command.continuation_metadata_pointer,
    resume_policy_json = command.resume_policy_json,
  })
end

-- Offer what a pending waitpoint has buffered, oldest first; the signal that satisfies comes back.
local function offer_buffered(space, run, suspension, waitpoint)
  if waitpoint.signal_count == 0 then return suspension, waitpoint, nil end
  local signals = space:children('signal', run.execution_id, waitpoint.waitpoint_id)
  table.sort(signals, function(a, b) return a.number < b.number end)
  local condition, matched, closer = suspension.condition, 0, nil
  for i = 1, #signals do
    local effect
    condition, effect = ff.offer(condition, waitpoint, signals[i])
    if ff.matched[effect] then matched = matched + 1 end
    if effect == ff.signal_effects.SATISFIED then
      closer = signals[i]
      break
    end
  end
  suspension = ff.replace(suspension, {condition = condition, last_signal_at = waitpoint.last_signal_at})
  return suspension, ff.replace(waitpoint, {matched_signal_count = matched}), closer
end

local function set_aside(space, run, command, suspension)
  local aside = ff.set_aside(space, run, ff.T.SUSPENDED, suspension.suspension_id)
  aside.current_suspension_id, aside.current_waitpoint_id = suspension.suspension_id, suspension.waitpoint_id
  aside.suspension_timeout_at = suspension.timeout_at
  aside.blocking_reason = ff.blocking_of[suspension.reason_code] or 'waiting_for_signal'
  aside.pending_waitpoints = ff.without_pending(run, suspension.waitpoint_id)
  local actor, details = ff.actor_of(run, command), ff.wait_details(suspension)
  space:put_execution(aside, ff.T.SUSPENDED.event, run.public_state, actor, suspension.reason_code, run, details)
end

local function go_on(space, run, command, suspension, waitpoint, closer)
  local now = space.now
  suspension = ff.replace(suspension, ff.satisfied_by(space, suspension.condition, closer))
  suspension.closed_at, suspension.close_reason = now, 'resumed'
  waitpoint = ff.replace(waitpoint, {state = 'closed', satisfied_at = now, closed_at = now, close_reason = 'resumed'})
  local went_on = ff.move(ff.keep_wait(space, run, suspension), ff.T.ALREADY_SATISFIED, now, {
    pending_waitpoints = ff.without_pending(run, suspension.waitpoint_id),
  })
  local actor, details = ff.actor_of(run, command), ff.wait_details(suspension)
  space:put_execution(went_on, ff.T.ALREADY_SATISFIED.event, run.public_state, actor, suspension.reason_code, nil, details)
  return suspension, {waitpoint}, ff.satisfying(space, run, suspension)
end

ff.operation('ff_suspend_execution', 'Suspend', function(space, command)
  local answer = ff.remembered_suspension(space, command)
  if answer then return answer end
  if command.timeout_at and command.timeout_at + ff.limits.TIMEOUT_PAST_TOLERANCE_MS < space.now then
    ff.refuse('invalid_input', {}, 'timeout_at', 'timeout_at_in_past')
  end
  local run = ff.hold(space, command)
  check_free(space, run, command)
  local suspension, closer, signals = suspension_of(space, run, command), nil, {}
  local waitpoints = ff.bind(space, run, command, suspension.timeout_at)
  suspension, waitpoints[1], closer = offer_buffered(space, run, suspension, waitpoints[1])
  suspension.waitpoint_key = waitpoints[1].waitpoint_key
  for i = 2, #waitpoints do
    suspension.additional[i - 1] = {waitpoints[i].waitpoint_id, waitpoints[i].waitpoint_key}
  end
  if closer then
    suspension, waitpoints, signals = go_on(space, run, command, suspension, waitpoints[1], closer)
  else
    set_aside(space, run, command, suspension)
  end
  space:put('suspension', suspension, run.execution_id)
  for i = 1, #waitpoints do space:put('waitpoint', waitpoints[i], run.execution_id, waitpoints[i].waitpoint_id) end
  answer = ff.suspend_answer(suspension, waitpoints, closer ~= nil, signals)
  ff.remember_suspension(space, command, answer, suspension.timeout_at)
  return answer
end)
