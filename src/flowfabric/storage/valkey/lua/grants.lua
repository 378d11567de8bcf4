-- The classic two-step claim: what its operations share, as in model/operations/grant.py.

-- Whether an active execution has lost its lease.
function ff.lease_lost(run)
  return run.lifecycle_phase == 'active'
    and (run.ownership_state == 'lease_expired_reclaimable' or run.ownership_state == 'lease_revoked')
end

local function missing(required, offered)
  local has, lacks = {}, {}
  for i = 1, #offered do has[offered[i]] = true end
  for i = 1, #required do
    if not has[required[i]] then lacks[#lacks + 1] = required[i] end
  end
  return lacks
end

-- Promise an execution to one worker. command.worker_capabilities is {refusal = {...}} when Python refused them.
function ff.grant(space, run, command, kind)
  if command.lane_id ~= '' and command.lane_id ~= run.lane_id then
    ff.refuse('invalid_input', {}, 'lane_id', 'the execution is in lane ' .. run.lane_id)
  end
  if ff.granted(run, space.now) then ff.refuse('grant_already_exists') end
  local offered = command.worker_capabilities
  if offered.refusal then
    local code, text, field = unpack(offered.refusal, 1, 3)
    ff.refuse(code, {unpack(offered.refusal, 4)}, field, text)
  end
  local lacks = missing(run.required_capabilities, offered)
  if lacks[1] then ff.refuse('capability_mismatch', {table.concat(lacks, ',')}) end
  local grant = ff.new('Grant', {
    kind = kind, worker_id = command.worker_id, worker_instance_id = command.worker_instance_id,
    created_at = space.now, expires_at = space.now + command.grant_ttl_ms,
    capability_hash = command.capability_hash, route_snapshot_json = command.route_snapshot_json,
    admission_summary = command.admission_summary,
  })
  space:touch(ff.replace(run, {grant = {grant}}))
  return run.execution_id, run.lane_id, grant.expires_at
end

-- Let the worker pass that was promised this; a promise that is too old is removed.
function ff.use_grant(space, run, worker_id, kind)
  local grant = run.grant[1]
  if not grant or grant.worker_id ~= worker_id or grant.kind ~= kind then ff.refuse('invalid_claim_grant') end
  if grant.expires_at < space.now then
    space:touch(ff.replace(run, {grant = {}}))
    ff.refuse_and_keep('claim_grant_expired')
  end
end

-- The lease that a command asks for by name.
function ff.lease_of(command, reason)
  return ff.new('Lease', {
    worker_id = command.worker_id, worker_instance_id = command.worker_instance_id, lease_id = command.lease_id,
    ttl_ms = command.lease_ttl_ms, claim_id = '', reason = reason or '',
  })
end
