-- What every lease-holder operation shares: the fence and the lease. model/machine/holding.py.

local function forget_trouble(run)
  run.lease_last_renewed_at = 0
  if ff.quiet(run) then return end
  run.lease_expired_at, run.lease_revoked_at, run.lease_revoke_reason, run.lease_end = 0, 0, '', ''
end
ff.forget_trouble = forget_trouble

-- Take a lease that is over out of a draft; only its epoch stays.
function ff.drop_lease(run)
  run.current_lease_id, run.current_worker_id, run.current_worker_instance_id = '', '', ''
  run.claim_id, run.claim_type = '', ''
  run.lease_acquired_at, run.lease_expires_at, run.lease_renewal_deadline = 0, 0, 0
  forget_trouble(run)
end

function ff.forget_waiting(run)
  if run.grant[1] then run.grant = {} end
  if ff.quiet(run) then return end
  run.blocking_detail, run.delay_until, run.blocked_at, run.paused_at = '', 0, 0, 0
end

function ff.forget_lineage(run)
  if ff.quiet(run) then return end
  run.pending_lineage_reason, run.pending_requested_by, run.pending_previous_index = '', '', -1
end

function ff.refuse_not_active(run)
  ff.refuse('execution_not_active', {
    run.terminal_outcome, ff.digits(run.current_lease_epoch), run.lifecycle_phase, run.current_attempt_id,
  })
end

local function given(fence)
  return fence.lease_id ~= '' or fence.attempt_id ~= '' or fence.lease_epoch >= 0
end

local function whole(fence)
  return fence.lease_id ~= '' and fence.attempt_id ~= '' and fence.lease_epoch >= 0
end

-- The fence of a holder's command; all of those begin with the same fields.
function ff.adopt_fence(run, holding, override)
  local fence = holding.fence
  if whole(fence) then return fence end
  if given(fence) then ff.refuse('partial_fence_triple', {}, 'fence') end
  if override and holding.source == 'operator_override' then
    return {run.current_lease_id, run.current_lease_epoch, run.current_attempt_id}
  end
  ff.refuse('fence_required', {}, 'fence')
end

local function holds(run, fence)
  return run.current_lease_id == fence.lease_id and run.current_lease_epoch == fence.lease_epoch
    and run.current_attempt_id == fence.attempt_id
end
ff.holds = holds

-- Let only the holder of a live lease pass; one that has run out is marked in the same step, unless mark is false.
function ff.require_lease(space, run, fence, mark)
  if run.lifecycle_phase ~= 'active' then ff.refuse_not_active(run) end
  if run.ownership_state ~= 'leased' then
    ff.refuse(run.ownership_state == 'lease_revoked' and 'lease_revoked' or 'lease_expired')
  end
  if run.lease_expires_at <= space.now then
    if mark == false then ff.refuse('lease_expired') end
    ff.lose_lease(space, run, ff.T.LEASE_EXPIRED, 'expired', 'timer')
    ff.refuse_and_keep('lease_expired')
  end
  if not holds(run, fence) then ff.refuse('stale_lease') end
end

-- Load the execution of a holder's command and make sure that the holder still holds it.
function ff.hold(space, holding, override, mark)
  local run = space:execution(holding.execution_id)
  ff.require_lease(space, run, ff.adopt_fence(run, holding, override), mark)
  return run
end

function ff.actor_of(run, holding)
  return holding.actor ~= '' and holding.actor or run.current_worker_id
end

-- T8 in its three forms: the lease ends, the work can be claimed again.
function ff.lose_lease(space, run, row, lease_end, actor, reason)
  ff.close_stream(space, run, row.closes_stream)
  local lost = ff.move(run, row, space.now, {lease_expired_at = space.now, lease_end = lease_end})
  return space:put_execution(lost, row.event, run.public_state, actor, reason, run)
end

local function belongs(attempt, fence)
  return attempt.attempt_id == fence.attempt_id and attempt.lease_epoch == fence.lease_epoch
    and attempt.lease_id == fence.lease_id
end

-- The ended attempt that a fence belongs to, so that a repeated call gets its first answer again; or nil.
function ff.past_attempt(space, run, fence)
  if (run.ownership_state == 'leased' and holds(run, fence)) or not whole(fence) then return nil end
  if belongs(run.attempt, fence) then return ff.final_lives[run.attempt.life] and run.attempt or nil end
  if fence.lease_epoch >= run.attempt.lease_epoch then return nil end
  local attempts = space:children('attempt', run.execution_id)
  for i = 1, #attempts do
    if belongs(attempts[i], fence) then return attempts[i] end
  end
  return nil
end
