-- ff_delay_execution (T16): the same attempt goes on later.
--
-- Keys      the execution
-- Command   Delay
-- Reply     execution id, public state
-- Keeps     only the holder of a live lease gives it back; a time that has passed means at once

ff.operation('ff_delay_execution', 'Delay', function(space, command)
  local run = ff.hold(space, command, true)
  local row, actor = ff.T.DELAYED, ff.actor_of(run, command)
  local delayed = ff.set_aside(space, run, row, 'worker_delay')
  delayed.delay_until = command.delay_until
  local details = {{'delay_until', ff.digits(command.delay_until)}}
  delayed = space:put_execution(delayed, row.event, run.public_state, actor, 'worker_delay', run, details)
  delayed = ff.promote_if_due(space, delayed, actor)
  return delayed.execution_id, delayed.public_state
end)
