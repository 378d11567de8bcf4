-- ff_wait_children (T17, T30): the same attempt goes on when nothing that it waits for is left.
--
-- Keys      the execution
-- Command   WaitChildren
-- Reply     execution id, public state
-- Keeps     only the holder of a live lease gives it back; without flows nothing is left to wait for

ff.operation('ff_wait_children', 'WaitChildren', function(space, command)
  local run = ff.hold(space, command, true)
  local actor = ff.actor_of(run, command)
  local moved = space:put_execution(ff.set_aside(space, run, ff.T.T17, 'waiting_children'), ff.T.T17.event, {
    actor = actor, before = run.public_state, reason = 'waiting_children', lease = run,
  })
  local before = moved.public_state
  moved = space:put_execution(ff.move(moved, ff.T.T30, space.now), ff.T.T30.event, {actor = actor, before = before})
  return {moved.execution_id, moved.public_state}
end)
