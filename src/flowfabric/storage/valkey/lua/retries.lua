-- Trying again, and going on when a time has come: schedule_retry and promote_if_due of model/operations/finish.py.

-- T3: what waits for a time that has come is eligible in the same step.
function ff.promote_if_due(space, run, actor)
  if run.eligibility_state ~= 'not_eligible_until_time' or run.delay_until > space.now then return run end
  local promoted = ff.move(run, ff.T.PROMOTED, space.now, {delay_until = 0})
  return space:put_execution(promoted, ff.T.PROMOTED.event, run.public_state, actor)
end

-- T14: end the attempt, wait for the backoff, and go on at once when there is none.
-- about: actor, reason, category, and where they matter detail, retry_after_ms, ended_by.
function ff.schedule_retry(space, run, about)
  local row, delay = ff.T.RETRY_SCHEDULED, about.retry_after_ms
  if not delay then delay = ff.backoff_ms(run.policy, run.retry_count, tonumber(space.chance)) end
  local delay_until = math.min(space.now + delay, ff.limits.MAX_INT)
  ff.close_stream(space, run, row.closes_stream)
  local attempt = ff.end_attempt(space, run, 'ended_failure', {
    failure_reason = about.reason, failure_category = about.category, failure_detail = about.detail or '',
    ended_by = about.ended_by or '', delay_until = delay_until, next_index = run.total_attempt_count,
  })
  local retried = ff.move(run, row, space.now, {
    attempt = attempt, current_attempt_id = '', retry_count = run.retry_count + 1, delay_until = delay_until,
    failure_reason = about.reason, failure_category = about.category, attempt_deadline_at = 0,
    attempt_timeout_remaining_ms = 0, pending_lineage_reason = about.reason, pending_previous_index = attempt.index,
    grant = {},
  })
  ff.drop_lease(retried)
  local details = {{'category', about.category}, {'delay_until', ff.digits(delay_until)}}
  retried = space:put_execution(retried, row.event, run.public_state, about.actor, about.reason, run, details)
  return ff.promote_if_due(space, retried, about.actor)
end
