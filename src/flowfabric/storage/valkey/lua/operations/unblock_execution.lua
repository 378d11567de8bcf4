-- ff_unblock_execution (T29): let blocked work go on, if it is still blocked for the expected reason.
--
-- Keys      the execution
-- Command   Unblock
-- Reply     public state
-- Keeps     only what admission or an operator blocks is let go

local function is_blocked(run)
  for _, eligibility in pairs(ff.blocks) do
    if run.eligibility_state == eligibility then return true end
  end
  return false
end

ff.operation('ff_unblock_execution', 'Unblock', function(space, command)
  local run, expected = space:execution(command.execution_id), command.expected_blocking_reason
  if run.lifecycle_phase ~= 'runnable' or not is_blocked(run)
    or (expected ~= '' and run.blocking_reason ~= expected) then
    ff.refuse('execution_not_eligible')
  end
  local free = ff.move(run, ff.T.UNBLOCKED, space.now, {
    blocking_detail = '', blocked_at = 0, paused_at = 0, delay_until = 0,
  })
  space:put_execution(free, ff.T.UNBLOCKED.event, run.public_state, command.actor, run.blocking_reason)
  return free.public_state
end)
