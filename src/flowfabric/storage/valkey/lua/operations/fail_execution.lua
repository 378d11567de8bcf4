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
