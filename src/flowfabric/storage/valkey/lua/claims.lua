-- Leasing one execution in the way that its state asks for: the second half of model/operations/claim.py.

local ATTEMPT_KINDS = {pending_retry_attempt = 'retry', pending_replay_attempt = 'replay'}

local function attempt_for(space, run, attempt_id, lease, kind)
  return ff.new('Attempt', {
    index = run.total_attempt_count, attempt_id = attempt_id, kind = kind, life = 'started', started_at = space.now,
    lease_id = lease.lease_id, lease_epoch = run.current_lease_epoch + 1, worker_id = lease.worker_id,
    worker_instance_id = lease.worker_instance_id,
  })
end

-- T5: start the first attempt, a retry or a replay.
function ff.new_attempt(space, run, attempt_id, lease)
  local attempt = attempt_for(space, run, attempt_id, lease, ATTEMPT_KINDS[run.attempt_state] or 'initial')
  if not ff.quiet(run) then
    attempt.lineage_reason, attempt.requested_by = run.pending_lineage_reason, run.pending_requested_by
    attempt.previous_index = run.pending_previous_index
  end
  return ff.begin_attempt(space, run, ff.T.CLAIMED, lease, attempt)
end

-- Why a lease is gone, for attempts and history.
function ff.lost_reason(run)
  return run.lease_end == 'worker_dead' and 'worker_dead' or 'lease_' .. run.lease_end
end

-- T11: end the attempt whose lease is gone, and start another.
function ff.reclaim(space, run, attempt_id, lease)
  local reason = ff.lost_reason(run)
  ff.close_stream(space, run, 'reclaimed', true)
  local old = ff.end_attempt(space, run, 'interrupted_reclaimed', {failure_reason = reason})
  local attempt = attempt_for(space, run, attempt_id, lease, 'reclaim')
  attempt.lineage_reason, attempt.previous_index = reason, old.index
  lease.reason = reason
  local counted = run.lease_end == 'released' and 0 or 1
  return ff.begin_attempt(space, run, ff.T.RECLAIMED, lease, attempt, old, {
    lease_reclaim_count = run.lease_reclaim_count + counted,
  })
end

-- How often an execution may be reclaimed; what a command asks for counts where the policy says nothing.
function ff.reclaim_cap(run, asked)
  local cap = run.policy.max_reclaim_count
  return cap >= 0 and cap or asked or ff.limits.DEFAULT_MAX_RECLAIMS
end

-- Whether the next reclaim would be one too many; a lease that was given back costs nothing.
function ff.at_reclaim_cap(run, asked)
  return run.lease_end ~= 'released' and run.lease_reclaim_count >= ff.reclaim_cap(run, asked)
end

-- T12: fail an execution that was reclaimed too often.
function ff.end_at_cap(space, run)
  local reason = 'max_reclaims_exceeded'
  local lost = {failure_reason = ff.lost_reason(run)}
  return ff.finish(space, run, ff.T.RECLAIM_CAP_REACHED, 'timer', reason, lost, {failure_reason = reason})
end

-- Lease one claimable execution; nil when it ended at its cap.
function ff.take(space, run, attempt_id, lease)
  if run.lifecycle_phase == 'active' then
    if ff.at_reclaim_cap(run) then
      ff.end_at_cap(space, run)
      return nil
    end
    return ff.reclaim(space, run, attempt_id, lease)
  end
  if run.attempt_state == 'attempt_interrupted' then return ff.resume_attempt(space, run, lease) end
  return ff.new_attempt(space, run, attempt_id, lease)
end
