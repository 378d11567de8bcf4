-- ff_expire_suspension (T20, T22, T23): a suspension whose time is over does what it was told to do then.
--
-- Keys      the execution
-- Command   ExpireSuspension
-- Reply     what was done, in one word; public state ('' when there is no such execution)
-- Keeps     nothing happens before its time, or twice

local ENDS = {fail = ff.T.SUSPENSION_FAILED, cancel = ff.T.SUSPENSION_CANCELLED, expire = ff.T.SUSPENSION_EXPIRED}

-- T23: wait on without a time, for an operator; signals still count.
local function escalate(space, run, suspension)
  local id = run.execution_id
  space:put('suspension', ff.replace(suspension, {
    timeout_at = 0, reason_code = 'waiting_for_operator_review',
  }), id)
  local ids = ff.waitpoints_of(suspension)
  for i = 1, #ids do -- they expired with the timeout, which is no more
    space:put('waitpoint', ff.replace(space:get('waitpoint', id, ids[i]), {expires_at = 0}), id, ids[i])
  end
  local stopped = ff.move(run, ff.T.ESCALATED, space.now, {suspension_timeout_at = 0})
  local details = {{'suspension_id', suspension.suspension_id}}
  return space:put_execution(stopped, ff.T.ESCALATED.event, run.public_state, 'timer', '', nil, details)
end

local function act(space, run, suspension)
  local behavior = suspension.timeout_behavior
  if behavior == 'auto_resume_with_timeout_signal' then
    return 'auto_resume', ff.end_suspension(space, run, 'timed_out_auto_resume', 'timer', 0)
  end
  if behavior == 'escalate' then return behavior, escalate(space, run, suspension) end
  local reason = 'suspension_timeout:' .. behavior
  local failure = {failure_reason = reason, failure_category = 'timeout'}
  return behavior, ff.finish(space, run, ENDS[behavior], 'timer', reason, failure, failure, 'timed_out_' .. behavior)
end

ff.operation('ff_expire_suspension', 'ExpireSuspension', function(space, command)
  local run = space:find(command.execution_id)
  if not run then return 'not_found_cleaned', '' end
  if run.lifecycle_phase ~= 'suspended' then return 'not_suspended_cleaned', run.public_state end
  local suspension = ff.open_suspension(space, run)
  if not suspension then return 'no_active_suspension_cleaned', run.public_state end
  if run.suspension_timeout_at == 0 or run.suspension_timeout_at > space.now then
    return 'not_yet_due', run.public_state
  end
  local outcome, changed = act(space, run, suspension)
  return outcome, changed.public_state
end)
