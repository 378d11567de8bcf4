-- ff_create_waitpoint: open a waitpoint whose token can be handed out before the suspension that will use it.
--
-- Keys      the execution
-- Command   CreateWaitpoint
-- Reply     the token
-- Keeps     an id names one open waitpoint; what an earlier one of that id has received is gone

ff.operation('ff_create_waitpoint', 'CreateWaitpoint', function(space, command)
  local run = ff.hold(space, command)
  ff.require_unused(space, run, command.waitpoint_id)
  local most = ff.limits.MAX_PENDING_WAITPOINTS
  if #run.pending_waitpoints >= most then
    ff.refuse('invalid_input', {}, 'waitpoint_id',
      'an execution has at most ' .. most .. ' pending waitpoints; close one first')
  end
  local expires_at = math.min(space.now + command.expires_in_ms, ff.limits.MAX_INT)
  local waitpoint = ff.fresh_waitpoint(space, run, command.waitpoint_id, command.waitpoint_key, {
    state = 'pending', expires_at = expires_at, message = command.message, details = command.details,
  })
  ff.forget_signals(space, run, command.waitpoint_id)
  space:put('waitpoint', waitpoint, run.execution_id, command.waitpoint_id)
  local pending = ff.without_pending(run, '')
  pending[#pending + 1] = {command.waitpoint_id, expires_at}
  local waiting = ff.replace(run, {pending_waitpoints = pending, last_mutation_at = space.now})
  space:put_execution(waiting, 'waitpoint_created', run.public_state, ff.actor_of(run, command), '', nil, {
    {'waitpoint_id', command.waitpoint_id}, {'waitpoint_key', command.waitpoint_key},
  })
  return waitpoint.token
end)
