-- Which indexes hold an execution: model/indexes.py, word for word.

function ff.claimable(run)
  if run.lifecycle_phase == 'runnable' then return run.eligibility_state == 'eligible_now' end
  return run.lifecycle_phase == 'active' and run.ownership_state ~= 'leased'
end

function ff.score(run)
  return run.created_at - run.priority * ff.limits.PRIORITY_STEP
end

function ff.granted(run, now)
  local grant = run.grant[1]
  return grant ~= nil and grant.expires_at >= now
end

-- The earliest of all its deadlines; 0 when there is none.
function ff.due_at(run)
  if run.lifecycle_phase == 'terminal' then
    return math.min(run.completed_at + run.retention_ms, ff.limits.MAX_INT)
  end
  local due, attempt_due, execution_due = nil, run.attempt_deadline_at, run.execution_deadline_at
  if run.ownership_state == 'leased' then due = run.lease_expires_at end
  if run.eligibility_state == 'not_eligible_until_time' then due = math.min(due or run.delay_until, run.delay_until) end
  if attempt_due ~= 0 and (not due or attempt_due < due) then due = attempt_due end
  if execution_due ~= 0 and (not due or execution_due < due) then due = execution_due end
  if ff.quiet(run) then return due or 0 end
  local timeout, pending = run.suspension_timeout_at, run.pending_waitpoints
  if timeout ~= 0 and (not due or timeout < due) then due = timeout end
  for i = 1, #pending do due = math.min(due or pending[i][2], pending[i][2]) end
  return due or 0
end

-- claimable, score (of what is), public state, due_at, holder, claim id
function ff.placement(run)
  if run.ownership_state == 'leased' then
    return false, 0, run.public_state, ff.due_at(run), run.current_worker_instance_id, run.claim_id
  end
  local claimable = ff.claimable(run)
  return claimable, claimable and ff.score(run) or 0, run.public_state, ff.due_at(run), '', ''
end

-- The queue inside its lane: kind \0 capabilities.
function ff.route_of(run)
  return run.execution_kind .. '\0' .. table.concat(run.required_capabilities, ',')
end
