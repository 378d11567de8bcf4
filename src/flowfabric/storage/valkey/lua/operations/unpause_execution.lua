-- ff_unpause_execution (T29): let a paused execution go on from wherever its record says.
--
-- Keys      the execution
-- Command   Unpause
-- Reply     nothing
-- Keeps     a time that still lies ahead is waited for

local function derived(run, now)
  if run.delay_until <= now then
    return {eligibility_state = 'eligible_now', blocking_reason = 'waiting_for_worker', delay_until = 0}
  end
  local reason = 'waiting_for_delay'
  if run.attempt_state == 'pending_retry_attempt' then
    reason = 'waiting_for_retry_backoff'
  elseif run.current_suspension_id ~= '' then
    reason = 'waiting_for_resume_delay'
  end
  return {eligibility_state = 'not_eligible_until_time', blocking_reason = reason}
end

ff.operation('ff_unpause_execution', 'Unpause', function(space, command)
  local run = space:execution(command.execution_id)
  if run.lifecycle_phase ~= 'runnable' then ff.refuse('execution_not_eligible') end
  if run.eligibility_state ~= 'blocked_by_operator' then return end
  local row, changes = ff.T.UNPAUSED, derived(run, space.now)
  changes.paused_at, changes.blocked_at, changes.blocking_detail = 0, 0, ''
  local unpaused = ff.move(run, row, space.now, changes)
  space:put_execution(unpaused, row.event, run.public_state, command.actor)
end)
