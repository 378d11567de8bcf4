-- What a claim tells of its worker: model/presence.py.

local function same(left, right)
  if #left ~= #right then return false end
  for i = 1, #left do
    if left[i] ~= right[i] then return false end
  end
  return true
end

-- Sorted, each once.
function ff.sorted_set(values)
  local copy, kept = {unpack(values)}, {}
  table.sort(copy, ff.precedes)
  for i = 1, #copy do
    if copy[i] ~= copy[i - 1] then kept[#kept + 1] = copy[i] end
  end
  return kept
end

local function differs(claim, worker)
  return not same(worker.lanes, claim.lanes)
    or (not same(worker.capabilities, claim.capabilities)
      and not same(worker.capabilities, ff.sorted_set(claim.capabilities)))
end

function ff.presence_namespace(claim)
  return claim.namespace ~= '' and claim.namespace or 'default'
end

-- The worker record after a claim, or nil when there is nothing worth writing.
function ff.presence(claim, worker, now)
  local told = claim.kinds or {}
  if worker and (worker.registered_at ~= 0 or not differs(claim, worker)) then
    local since, kinds = now - worker.last_heartbeat_at, worker.kinds
    local lately = 0 <= since and since < math.min(ff.limits.RENOTE_MS, math.floor(worker.liveness_ttl_ms / 3))
    if not same(kinds, told) then
      local sorted = ff.sorted_set(told)
      if not same(kinds, sorted) then kinds = sorted end
    end
    if lately and kinds == worker.kinds then return nil end
    return ff.replace(worker, {last_heartbeat_at = now, kinds = kinds})
  end
  return ff.new('Worker', {
    version = ff.RECORD_VERSION, worker_id = claim.worker_id, worker_instance_id = claim.worker_instance_id,
    namespace = ff.presence_namespace(claim), lanes = claim.lanes, capabilities = ff.sorted_set(claim.capabilities),
    last_heartbeat_at = now, liveness_ttl_ms = ff.limits.LIVENESS_MS, registered_at = 0,
    kinds = ff.sorted_set(told),
  })
end
