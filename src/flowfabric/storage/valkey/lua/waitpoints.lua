-- Places where signals arrive, opened with a suspension or ahead of it: model/operations/suspend_waitpoint.py.

-- How a pending waitpoint is closed whose time is over.
ff.NEVER_USED = 'never_committed'

-- The pending waitpoints of an execution but one.
function ff.without_pending(run, waitpoint_id)
  local rest, pending = {}, run.pending_waitpoints
  for i = 1, #pending do
    if pending[i][1] ~= waitpoint_id then rest[#rest + 1] = pending[i] end
  end
  return rest
end

-- Close pending waitpoints that will not be used, with one line of history for each.
function ff.drop_pending(space, run, waitpoint_ids, reason, actor)
  ff.close_waitpoints(space, run, waitpoint_ids, reason)
  for i = 1, #waitpoint_ids do
    local pending, details = ff.without_pending(run, waitpoint_ids[i]), {{'waitpoint_id', waitpoint_ids[i]}}
    local before = run.public_state
    run = ff.replace(run, {pending_waitpoints = pending, last_mutation_at = space.now})
    space:put_execution(run, 'waitpoint_closed', before, actor, reason, nil, details)
  end
  return run
end

function ff.require_unused(space, run, waitpoint_id)
  local known = space:get('waitpoint', run.execution_id, waitpoint_id)
  if known and known.state ~= 'closed' then ff.refuse('waitpoint_already_exists', {}, 'waitpoint_id') end
end

-- Drop what a closed waitpoint of the same id has received: it says nothing to the new one.
function ff.forget_signals(space, run, waitpoint_id)
  local known = space:get('waitpoint', run.execution_id, waitpoint_id)
  if not known or known.signal_count == 0 then return end
  local signals = space:children('signal', run.execution_id, waitpoint_id)
  for i = 1, #signals do space:put('signal', false, run.execution_id, waitpoint_id, signals[i].number) end
end

-- A new waitpoint with its token. state, expires_at, message, details, and for an active one suspension_id, activated_at.
function ff.fresh_waitpoint(space, run, waitpoint_id, waitpoint_key, changes)
  local waitpoint = ff.new('Waitpoint', changes)
  waitpoint.version, waitpoint.created_at, waitpoint.attempt_index = ff.RECORD_VERSION, space.now, run.attempt.index
  waitpoint.waitpoint_id, waitpoint.waitpoint_key = waitpoint_id, waitpoint_key
  waitpoint.token = ff.mint_token(space, run.execution_id, waitpoint)
  return waitpoint
end

local function usable(space, run, command)
  local binding = command.waitpoints[1]
  local waitpoint = space:get('waitpoint', run.execution_id, binding.waitpoint_id)
  if not waitpoint then ff.refuse('waitpoint_not_found', {}, 'waitpoints') end
  if waitpoint.state ~= 'pending' then
    local late = waitpoint.close_reason == ff.NEVER_USED -- whether the timer has passed by makes no difference
    ff.refuse(late and 'pending_waitpoint_expired' or 'waitpoint_not_pending', {}, 'waitpoints')
  end
  if waitpoint.attempt_index ~= run.attempt.index then
    ff.refuse('invalid_waitpoint_for_execution', {}, 'waitpoints')
  end
  if waitpoint.expires_at <= space.now then ff.refuse('pending_waitpoint_expired', {}, 'waitpoints') end
  if #command.waitpoints > 1 then ff.refuse('use_pending_with_extras_unsupported', {}, 'waitpoints') end
  -- Only the record knows the key: a condition that listens elsewhere would wait for ever.
  local wanted = ff.referenced_keys(command.condition)
  wanted[#wanted + 1] = binding.waitpoint_key
  for i = 1, #wanted do
    if wanted[i] ~= '' and wanted[i] ~= waitpoint.waitpoint_key then
      ff.refuse('invalid_input', {}, 'waitpoints', 'waitpoint_key_mismatch')
    end
  end
  return waitpoint
end

-- The waitpoints of a suspension: the pending one that it uses, or fresh ones with their tokens.
function ff.bind(space, run, command, timeout_at)
  local active = {
    state = 'active', suspension_id = command.suspension_id, activated_at = space.now, expires_at = timeout_at,
    message = command.message, details = command.details,
  }
  local bindings, fresh = command.waitpoints, {}
  if bindings[1].pending then
    local waitpoint = usable(space, run, command)
    if active.message == '' then active.message = waitpoint.message end
    if active.details == '' then active.details = waitpoint.details end
    return {ff.replace(waitpoint, active)}
  end
  for i = 1, #bindings do ff.require_unused(space, run, bindings[i].waitpoint_id) end
  for i = 1, #bindings do
    fresh[i] = ff.fresh_waitpoint(space, run, bindings[i].waitpoint_id, bindings[i].waitpoint_key, active)
  end
  for i = 1, #fresh do ff.forget_signals(space, run, fresh[i].waitpoint_id) end
  return fresh
end
