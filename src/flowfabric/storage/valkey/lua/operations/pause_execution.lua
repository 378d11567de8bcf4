-- ff_pause_execution (T28): hold any runnable execution back.
--
-- Keys      the execution
-- Command   Pause
-- Reply     nothing
-- Keeps     what is paused already stays as it is; a grant on it is gone

ff.operation('ff_pause_execution', 'Pause', function(space, command)
  local run = space:execution(command.execution_id)
  if run.lifecycle_phase ~= 'runnable' then ff.refuse('execution_not_eligible') end
  if run.eligibility_state == 'blocked_by_operator' then return end
  local row = ff.T.PAUSED
  local paused = ff.move(run, row, space.now, {
    paused_at = space.now, blocked_at = space.now, blocking_detail = command.reason, grant = {},
  })
  space:put_execution(paused, row.event, run.public_state, command.actor, command.reason)
end)
