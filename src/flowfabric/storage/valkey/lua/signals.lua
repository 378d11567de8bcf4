-- Taking a signal whose sender may send it: the shared part of model/operations/signal.py.

-- The suspension that the signal may end, or nil when a pending waitpoint buffers it.
local function target(space, run, waitpoint)
  if run.lifecycle_phase == 'terminal' then ff.refuse('target_not_signalable') end
  if waitpoint.state == 'pending' then
    if waitpoint.expires_at <= space.now then ff.refuse('waitpoint_closed') end
    return nil
  end
  if run.lifecycle_phase ~= 'suspended' then ff.refuse('target_not_signalable') end
  if waitpoint.state ~= 'active' then ff.refuse('waitpoint_closed') end
  local suspension = ff.open_suspension(space, run)
  if not suspension or waitpoint.suspension_id ~= suspension.suspension_id then ff.refuse('target_not_signalable') end
  return suspension
end

-- Keep the signal, count it, drop the oldest beyond the length that is kept, and tell the history.
local function record(space, run, waitpoint, signal, about, effect)
  local id = run.execution_id
  local first = math.max(waitpoint.first_signal, signal.number - about.maxlen + 1)
  for number = waitpoint.first_signal, first - 1 do
    space:put('signal', false, id, waitpoint.waitpoint_id, number)
  end
  space:put('signal', ff.replace(signal, {observed_effect = effect}), id, waitpoint.waitpoint_id, signal.number)
  space:put('waitpoint', ff.replace(waitpoint, {
    signal_count = signal.number, last_signal_at = space.now, first_signal = first,
    matched_signal_count = waitpoint.matched_signal_count + (ff.matched[effect] and 1 or 0),
    satisfied_at = effect == ff.signal_effects.SATISFIED and space.now or waitpoint.satisfied_at,
  }), id, waitpoint.waitpoint_id)
  local counted = ff.replace(run, {signal_count = run.signal_count + 1, last_mutation_at = space.now})
  return space:put_execution(counted, 'signal', run.public_state, about.actor, '', nil, {
    {'signal_id', signal.signal_id}, {'signal_name', signal.signal_name}, {'waitpoint_id', waitpoint.waitpoint_id},
    {'source_identity', signal.source_identity}, {'effect', effect},
  })
end

-- Let the signal count; when it satisfies the condition, the work goes on in the same step.
local function consider(space, run, waitpoint, suspension, signal, about)
  local condition, effect = ff.offer(suspension.condition, waitpoint, signal)
  suspension = ff.replace(suspension, {condition = condition, last_signal_at = space.now})
  space:put('suspension', suspension, run.execution_id)
  run = record(space, run, waitpoint, signal, about, effect)
  if effect == ff.signal_effects.SATISFIED then
    ff.end_suspension(space, run, 'resumed', about.actor, about.delay_ms or suspension.resume_delay_ms,
      ff.satisfied_by(space, condition, signal))
  end
  return effect
end

-- Accept a signal. about: actor, dedup_key, dedup_ttl_ms, maxlen, limit, and delay_ms where the sender says one.
function ff.accept(space, run, waitpoint, signal, about)
  local suspension = target(space, run, waitpoint)
  if about.actor == '' then about.actor = signal.source_identity end
  if about.limit ~= 0 and run.signal_count >= about.limit then
    ff.refuse('signal_limit_exceeded', {ff.digits(about.limit)})
  end
  if about.dedup_key ~= '' then
    local place = waitpoint.waitpoint_id .. '\31' .. about.dedup_key
    local memo = space:get('memo', 'signal', run.execution_id, place)
    if memo and memo.expires_at > space.now then return 'duplicate', cmsgpack.unpack(memo.value) end
    space:put('memo', ff.new('Memo', {
      value = cmsgpack.pack(signal.signal_id),
      expires_at = math.min(space.now + about.dedup_ttl_ms, ff.limits.MAX_INT),
    }), 'signal', run.execution_id, place)
  end
  if suspension then return 'accepted', signal.signal_id, consider(space, run, waitpoint, suspension, signal, about) end
  record(space, run, waitpoint, signal, about, ff.signal_effects.BUFFERED)
  return 'accepted', signal.signal_id, ff.signal_effects.BUFFERED
end

-- The signal that a command brings; `given` are the fields that differ between its two kinds.
function ff.signal_from(space, command, waitpoint, payload, given)
  local signal = ff.new('Signal', given)
  signal.version, signal.signal_id, signal.waitpoint_id = ff.RECORD_VERSION, command.signal_id, waitpoint.waitpoint_id
  signal.number, signal.signal_name = waitpoint.signal_count + 1, command.signal_name
  signal.payload, signal.payload_encoding = payload, command.payload_encoding
  signal.accepted_at, signal.observed_effect = space.now, ''
  return signal
end
