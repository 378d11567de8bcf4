-- ff_wait_children (T17, T30): the same attempt goes on when nothing that it waits for is left.
--
-- Keys      the execution
-- Command   WaitChildren
-- Reply     execution id, public state
-- Keeps     only the holder of a live lease gives it back; without flows nothing is left to wait for

ff.operation('ff_wait_children', 'WaitChildren', function(space, command)
  local run = ff.hold(space, command, true)
  local actor = ff.actor_of(run, command)
  local reason = 'waiting_children'
  local moved = ff.set_aside(space, run, ff.T.WAITING_FOR_CHILDREN, reason)
  space:put_execution(moved, ff.T.WAITING_FOR_CHILDREN.event, run.public_state, actor, reason, run)
  local before = moved.public_state
  moved = space:put_execution(ff.move(moved, ff.T.DEPENDENCIES_SATISFIED, space.now), ff.T.DEPENDENCIES_SATISFIED.event, before, actor)
  return moved.execution_id, moved.public_state
end)
