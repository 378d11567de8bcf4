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

local function differs(claim, known)
  return not same(known.lanes, claim.lanes)
    or (not same(known.capabilities, claim.capabilities)
      and not same(known.capabilities, ff.sorted_set(claim.capabilities)))
end

function ff.presence_namespace(claim)
  return claim.namespace ~= '' and claim.namespace or 'default'
end

-- The worker record after a claim, or nil when there is nothing worth writing.
function ff.presence(claim, known, now)
  if known then
    local since = now - known.last_heartbeat_at
    local lately = 0 <= since and since < math.min(ff.limits.RENOTE_MS, math.floor(known.liveness_ttl_ms / 3))
    local unlike = known.registered_at == 0 and differs(claim, known)
    if lately and not unlike then return nil end
    if not unlike then return ff.replace(known, {last_heartbeat_at = now}) end
  end
  return ff.new('Worker', {
    version = ff.RECORD_VERSION, worker_id = claim.worker_id, worker_instance_id = claim.worker_instance_id,
    namespace = ff.presence_namespace(claim), lanes = claim.lanes, capabilities = ff.sorted_set(claim.capabilities),
    last_heartbeat_at = now, liveness_ttl_ms = ff.limits.LIVENESS_MS, registered_at = 0,
  })
end
