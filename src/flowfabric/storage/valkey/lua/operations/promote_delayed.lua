-- ff_promote_delayed (T3): delayed work whose time has come is eligible.
--
-- Keys      the execution
-- Command   PromoteDelayed
-- Reply     what was done, public state ('' when there is no such execution)
-- Keeps     nothing happens before its time

ff.operation('ff_promote_delayed', 'PromoteDelayed', function(space, command)
  local run = space:find(command.execution_id)
  if not run then return 'not_found_cleaned', '' end
  if run.lifecycle_phase ~= 'runnable' then return 'not_runnable_cleaned', run.public_state end
  if run.eligibility_state ~= 'not_eligible_until_time' then return 'not_delayed_cleaned', run.public_state end
  if run.delay_until > space.now then return 'not_yet_due', run.public_state end
  return 'promoted', ff.promote_if_due(space, run, 'timer').public_state
end)
