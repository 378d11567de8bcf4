-- ff_complete_execution (T13): the attempt and the execution end with a result.
--
-- Keys      the execution
-- Command   Complete; `result` says whether there is one
-- Blobs     1 the result, when there is one
-- Reply     execution id, public state
-- Keeps     at most one successful completion per run; a repeat by the same holder is answered as the first time

ff.operation('ff_complete_execution', 'Complete', function(space, command, blobs)
  local run = space:execution(command.execution_id)
  local fence = ff.adopt_fence(run, command, true)
  local before = ff.past_attempt(space, run, fence)
  if before and before.ended_by == 'complete' then return run.execution_id, 'completed' end
  ff.require_lease(space, run, fence)
  if command.result then
    space:emit('result', run.execution_id, run.attempt.index, ff.pack_result(command.result_encoding, blobs[1]))
  end
  local ended = ff.finish(space, run, ff.T.COMPLETED, ff.actor_of(run, command))
  ended.result_encoding, ended.attempt.ended_by = command.result_encoding, 'complete' -- not packed yet, and not told
  if not ff.quiet(ended) then ended.failure_reason, ended.failure_category = '', '' end
  return ended.execution_id, ended.public_state
end)
