-- ff_change_priority: store a new priority; the order of a queue follows from the record.
--
-- Keys      the execution
-- Command   ChangePriority
-- Reply     the priority before, and after
-- Keeps     what has ended keeps its priority

ff.operation('ff_change_priority', 'ChangePriority', function(space, command)
  local run = space:execution(command.execution_id)
  if run.lifecycle_phase == 'terminal' then ff.refuse('execution_not_eligible') end
  local new = ff.clamp_priority(command.priority)
  local changed = ff.replace(run, {head = false, priority = new, last_mutation_at = space.now})
  local details = {{'old', ff.digits(run.priority)}, {'new', ff.digits(new)}}
  space:put_execution(changed, 'priority_changed', run.public_state, command.actor, '', nil, details)
  return run.priority, new
end)
