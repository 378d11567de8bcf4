-- ff_approve_signal (T20, T21): take a signal from an operator, who needs no token.
--
-- Keys      the execution
-- Command   ApproveSignal
-- Blobs     1 the payload
-- Reply     "accepted", signal id, effect | "duplicate", the id of the first
-- Keeps     one approval for each key, or for each name and suffix, while it is remembered

ff.operation('ff_approve_signal', 'ApproveSignal', function(space, command, blobs)
  local run = space:execution(command.execution_id)
  if command.lane_id ~= '' and command.lane_id ~= run.lane_id then
    ff.refuse('invalid_input', {}, 'lane_id', 'lane_mismatch: the execution is on lane ' .. run.lane_id)
  end
  local waitpoint = space:get('waitpoint', run.execution_id, command.waitpoint_id)
  if not waitpoint then ff.refuse('waitpoint_not_found', {}, 'waitpoint_id') end
  local key = command.idempotency_key
  if command.dedup_ttl_ms == 0 then
    key = ''
  elseif key == '' then
    key = 'approval:' .. command.signal_name .. ':' .. command.key_suffix
  end
  local signal = ff.signal_from(space, command, waitpoint, blobs[1], {
    signal_category = 'approval', source_type = 'operator', source_identity = command.source_identity,
    correlation_id = '', idempotency_key = key, target_scope = 'execution', created_at = space.now,
  })
  return ff.accept(space, run, waitpoint, signal, {
    actor = command.actor, dedup_key = key, dedup_ttl_ms = command.dedup_ttl_ms,
    maxlen = ff.limits.SIGNAL_LIST_LENGTH, limit = run.policy.max_signals,
  })
end)
