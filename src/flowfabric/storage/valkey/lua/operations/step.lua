-- ff_put_step: store the first result of a step; every later one, also a repeat of the first, gets what is stored.
--
-- Keys      the execution
-- Command   PutStep
-- Blobs     1 the result
-- Reply     "stored" | "existing", the packed step
-- Keeps     a step has one result for ever; next_step_index follows all stored calls

ff.operation('ff_put_step', 'PutStep', function(space, command, blobs)
  local run = ff.hold(space, command)
  local known = space:get('step', run.execution_id, command.step_name)
  if known then return 'existing', ff.pack(known) end
  if run.step_count >= ff.limits.MAX_STEPS then
    ff.refuse('step_limit_exceeded', {ff.digits(ff.limits.MAX_STEPS)})
  end
  local call_index = command.call_index or run.next_step_index
  space:put('step', ff.new('Step', {
    name = command.step_name, call_index = call_index, attempt_index = run.attempt.index, at = space.now,
    encoding = command.encoding, result = blobs[1],
  }), run.execution_id, command.step_name)
  local changed = ff.replace(run, {
    step_count = run.step_count + 1, next_step_index = math.max(run.next_step_index, call_index + 1),
    last_mutation_at = space.now,
  })
  local actor = ff.actor_of(run, command)
  space:put_execution(changed, 'step', run.public_state, actor, '', nil, {{'name', command.step_name}})
  return 'stored'
end)
