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

-- ff_fail_execution (T14, T15): the attempt ends with a failure; the policy decides whether another follows.
--
-- Keys      the execution
-- Command   Fail
-- Reply     "retry", delay_until, next attempt index | "failed"
-- Keeps     a repeat by the same holder is answered as the first time, whatever has happened since

ff.operation('ff_fail_execution', 'Fail', function(space, command)
  local run = space:execution(command.execution_id)
  local fence = ff.adopt_fence(run, command, true)
  local before = ff.past_attempt(space, run, fence)
  if before and before.ended_by == 'fail' then
    if before.next_index < 0 then return 'failed' end
    return 'retry', before.delay_until, before.next_index
  end
  ff.require_lease(space, run, fence)
  local actor = ff.actor_of(run, command)
  if ff.may_retry(run.policy, command.category, run.retry_count) then
    local retried = ff.schedule_retry(space, run, {
      actor = actor, reason = command.reason, category = command.category, detail = command.detail,
      retry_after_ms = command.retry_after_ms, ended_by = 'fail',
    })
    return 'retry', retried.attempt.delay_until, retried.attempt.next_index
  end
  ff.finish(space, run, ff.T.FAILED, actor, command.reason, {
    failure_reason = command.reason, failure_category = command.category, failure_detail = command.detail,
    ended_by = 'fail',
  }, {failure_reason = command.reason, failure_category = command.category})
  return 'failed'
end)
