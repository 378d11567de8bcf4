-- ff_block_execution_for_admission (T28): hold eligible work back for a reason of admission.
--
-- Keys      the execution
-- Command   Block
-- Reply     public state
-- Keeps     only eligible work is blocked, only for a reason that may block; a grant on it is gone

ff.operation('ff_block_execution_for_admission', 'Block', function(space, command)
  local run = space:execution(command.execution_id)
  if run.lifecycle_phase == 'terminal' then ff.refuse_not_active(run) end
  if run.lifecycle_phase ~= 'runnable' then ff.refuse('execution_not_eligible') end
  local eligibility = ff.blocks[command.blocking_reason]
  if not eligibility then
    ff.refuse('invalid_blocking_reason', {command.blocking_reason}, 'blocking_reason')
  end
  if run.eligibility_state ~= 'eligible_now' then ff.refuse('execution_not_eligible') end
  local blocked = ff.move(run, ff.T.BLOCKED, space.now, {
    eligibility_state = eligibility, blocking_reason = command.blocking_reason,
    blocking_detail = command.blocking_detail, blocked_at = space.now, grant = {},
  })
  space:put_execution(blocked, ff.T.BLOCKED.event, run.public_state, command.actor, command.blocking_reason)
  return blocked.public_state
end)
