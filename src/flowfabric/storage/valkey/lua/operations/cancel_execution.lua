-- ff_cancel_execution (T24): end whatever has not ended.
--
-- Keys      the execution
-- Command   Cancel
-- Reply     nothing
-- Keeps     a holder needs its whole fence on active work; its repeat is answered as the first time

local HOLDERS = {lease_holder = true, worker = true}

local function check_fence_shape(run, command)
  local fence = command.fence
  if ff.fence_given(fence) or run.lifecycle_phase == 'active' then ff.adopt_fence(run, command, false) end
end

ff.operation('ff_cancel_execution', 'Cancel', function(space, command)
  local run, holder = space:execution(command.execution_id), HOLDERS[command.source]
  if holder then
    check_fence_shape(run, command)
    local before = ff.past_attempt(space, run, command.fence)
    if before and before.ended_by == 'cancel' then return end
  end
  if run.lifecycle_phase == 'terminal' then ff.refuse_not_active(run) end
  if holder and (run.lifecycle_phase == 'active' or ff.fence_given(command.fence)) then
    ff.require_lease(space, run, command.fence)
  end
  local source = command.source ~= '' and command.source or run.execution_id
  local changes = {failure_reason = 'cancelled: ' .. command.reason, failure_category = 'cancelled'}
  if holder then changes.ended_by = 'cancel' end
  local actor = command.actor ~= '' and command.actor or source
  local cancelled = {cancellation_reason = command.reason, cancelled_by = source}
  ff.finish(space, run, ff.T.CANCELLED, actor, command.reason, changes, cancelled, 'cancelled')
end)
