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

local function earlier(time, other)
  if other == 0 then return time end
  return (time == nil or other < time) and other or time
end

-- The earliest of all its deadlines; 0 when there is none.
function ff.due_at(run)
  if run.lifecycle_phase == 'terminal' then
    return math.min(run.completed_at + run.retention_ms, ff.limits.MAX_INT)
  end
  local due
  if run.ownership_state == 'leased' then due = run.lease_expires_at end
  if run.eligibility_state == 'not_eligible_until_time' then due = math.min(due or run.delay_until, run.delay_until) end
  due = earlier(due, run.attempt_deadline_at)
  due = earlier(due, run.execution_deadline_at)
  if ff.quiet(run) then return due or 0 end
  due = earlier(due, run.suspension_timeout_at)
  local pending = run.pending_waitpoints
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
