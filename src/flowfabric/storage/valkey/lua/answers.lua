-- The answer of a suspension, packed as `Answer` of model/operations/suspend.py: it is remembered, and read in Python.

local pack = function(value) return cmsgpack.pack(value) end

local function pack_bytes(bytes)
  local size = #bytes
  if size < 256 then return '\196' .. string.char(size) .. bytes end
  if size < 65536 then return '\197' .. struct.pack('>I2', size) .. bytes end
  return '\198' .. struct.pack('>I4', size) .. bytes
end

-- A map with its fields in order, as Python writes it.
local function pack_map(record, names)
  local parts = {string.char(128 + #names)}
  for i = 1, #names do
    local name = names[i]
    parts[#parts + 1] = pack(name)
    parts[#parts + 1] = name == 'payload' and pack_bytes(record.payload) or pack(record[name])
  end
  return table.concat(parts)
end

local SIGNAL = {
  'signal_id', 'signal_name', 'signal_category', 'source_type', 'source_identity', 'correlation_id', 'accepted_at',
  'payload', 'payload_encoding',
}
local WAITPOINT = {'waitpoint_id', 'waitpoint_key', 'waitpoint_token'}

function ff.suspend_answer(suspension, waitpoints, satisfied, signals)
  local parts = {'\148', pack(suspension.suspension_id), ff.list_head(#waitpoints)}
  for i = 1, #waitpoints do
    local opened = {
      waitpoint_id = waitpoints[i].waitpoint_id, waitpoint_key = waitpoints[i].waitpoint_key,
      waitpoint_token = waitpoints[i].token,
    }
    parts[#parts + 1] = pack_map(opened, WAITPOINT)
  end
  parts[#parts + 1] = pack(satisfied)
  parts[#parts + 1] = ff.list_head(#signals)
  for i = 1, #signals do parts[#parts + 1] = pack_map(signals[i], SIGNAL) end
  return table.concat(parts)
end

-- The answer that an idempotency key stands for, or nil.
function ff.remembered_suspension(space, command)
  if command.idempotency_key == '' then return nil end
  local memo = space:get('memo', 'suspend', command.execution_id, command.idempotency_key)
  return memo and memo.expires_at > space.now and memo.value or nil
end

function ff.remember_suspension(space, command, answer, timeout_at)
  if command.idempotency_key == '' then return end
  local kept = ff.limits.SUSPEND_MEMO_MAX_MS
  if timeout_at ~= 0 then
    kept = math.min(math.max(timeout_at - space.now, 0) + ff.limits.SUSPEND_MEMO_GRACE_MS, kept)
  end
  space:put('memo', ff.new('Memo', {
    value = answer, expires_at = math.min(space.now + kept, ff.limits.MAX_INT),
  }), 'suspend', command.execution_id, command.idempotency_key)
end
