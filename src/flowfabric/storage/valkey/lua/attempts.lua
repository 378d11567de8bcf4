-- Beginning, setting aside and ending attempts: model/machine/attempt.py.

-- Draft a lease on an attempt, new or resumed: the common part of T5, T6 and T11.
local function begun_with(space, run, row, lease, attempt, claim_type, changes)
  local now, begun = space.now, ff.move(run, row, space.now, changes)
  begun.attempt, begun.current_attempt_id = attempt, attempt.attempt_id
  begun.claim_type, begun.claim_id = claim_type, lease.claim_id
  begun.current_lease_id, begun.current_lease_epoch = lease.lease_id, attempt.lease_epoch
  begun.current_worker_id, begun.current_worker_instance_id = lease.worker_id, lease.worker_instance_id
  begun.lease_acquired_at, begun.lease_expires_at = now, now + lease.ttl_ms
  begun.lease_renewal_deadline = now + math.floor(lease.ttl_ms * 2 / 3)
  begun.started_at = run.started_at ~= 0 and run.started_at or now
  ff.forget_trouble(begun)
  ff.forget_waiting(begun)
  return begun
end

local function put_begun(space, run, begun, row, lease)
  return space:put_execution(begun, row.event, run.public_state, lease.worker_id, lease.reason, begun)
end

-- Start a new attempt under a new lease (T5, T11); the one before, which has ended, gets its row.
function ff.begin_attempt(space, run, row, lease, attempt, ended, changes)
  if run.attempt.index >= 0 then
    space:put('attempt', ended or run.attempt, run.execution_id, run.attempt.index)
  end
  local begun = begun_with(space, run, row, lease, attempt, attempt.kind, changes)
  begun.total_attempt_count = attempt.index + 1
  local policy = ff.policy_of(run)
  local timeout = policy.attempt_timeout_ms
  begun.attempt_deadline_at = timeout ~= 0 and math.min(space.now + timeout, ff.limits.MAX_INT) or 0
  begun.has_stream, begun.current_suspension_id = false, ''
  if not ff.quiet(begun) then begun.attempt_timeout_remaining_ms, begun.current_waitpoint_id = 0, '' end
  ff.forget_lineage(begun)
  return put_begun(space, run, begun, row, lease)
end

-- Go on with an interrupted attempt under a new lease (T6); its timeout runs on from where it stopped.
function ff.resume_attempt(space, run, lease)
  local attempt = ff.replace(run.attempt, {
    life = 'started', resumed_at = space.now, suspended_at = 0, suspension_id = '', lease_id = lease.lease_id,
    lease_epoch = run.current_lease_epoch + 1, worker_id = lease.worker_id,
    worker_instance_id = lease.worker_instance_id,
  })
  local begun = begun_with(space, run, ff.T.CLAIMED_RESUMED, lease, attempt, 'resumed')
  local remaining = run.attempt_timeout_remaining_ms
  begun.attempt_timeout_remaining_ms = 0
  begun.attempt_deadline_at = remaining ~= 0 and math.min(space.now + remaining, ff.limits.MAX_INT) or 0
  return put_begun(space, run, begun, ff.T.CLAIMED_RESUMED, lease)
end

-- The current attempt, ended; it stays in its execution until another one takes its place.
-- changes: failure_reason, failure_category and whatever else differs.
function ff.end_attempt(space, run, life, changes)
  local attempt = run.attempt
  if attempt.index < 0 or ff.final_lives[attempt.life] then return attempt end
  attempt = ff.copy(attempt)
  attempt.life, attempt.ended_at, attempt.failure_reason, attempt.failure_category = life, space.now, '', ''
  if changes then ff.change(attempt, changes) end
  return attempt
end

-- Close the current attempt's stream, if it has one; a reason given first stands unless overridden.
function ff.close_stream(space, run, reason, override)
  if not run.has_stream or reason == '' then return end
  local stream = space:get('stream', run.execution_id, run.attempt.index)
  if stream.closed_at ~= 0 and not override then return end
  space:put('stream', ff.replace(stream, {
    closed_at = stream.closed_at ~= 0 and stream.closed_at or space.now, closed_reason = reason,
  }), run.execution_id, run.attempt.index)
end
