-- ff_resume_execution (T20, T21): an operator ends the wait, whatever its condition.
--
-- Keys      the execution
-- Command   ResumeExecution
-- Reply     public state
-- Keeps     a condition that forbids it is not passed over

ff.operation('ff_resume_execution', 'ResumeExecution', function(space, command)
  local run = space:execution(command.execution_id)
  local suspension = run.lifecycle_phase == 'suspended' and ff.open_suspension(space, run)
  if not suspension then ff.refuse('execution_not_suspended') end
  if not ff.as('Condition', suspension.condition).operator_override then ff.refuse('resume_condition_not_met') end
  local resumed = ff.end_suspension(space, run, 'resumed_by_operator', command.actor, command.resume_delay_ms)
  return resumed.public_state
end)
