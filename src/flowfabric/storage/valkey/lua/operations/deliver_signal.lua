-- ff_deliver_signal (T20, T21): take a signal from whoever holds the waitpoint's token.
--
-- Keys      the execution
-- Command   DeliverSignal
-- Blobs     1 the payload
-- Reply     "accepted", signal id, effect | "duplicate", the id of the first
-- Keeps     who has no token learns nothing about the state; a condition that is satisfied resumes in the same step

ff.operation('ff_deliver_signal', 'DeliverSignal', function(space, command, blobs)
  local run = space:execution(command.execution_id)
  local waitpoint = space:get('waitpoint', run.execution_id, command.waitpoint_id)
  if not waitpoint then ff.refuse('invalid_token') end
  ff.verify_token(space, command.waitpoint_token, run.execution_id, waitpoint)
  local signal = ff.signal_from(space, command, waitpoint, blobs[1], {
    signal_category = command.signal_category, source_type = command.source_type,
    source_identity = command.source_identity, correlation_id = command.correlation_id,
    idempotency_key = command.idempotency_key, target_scope = command.target_scope,
    created_at = command.created_at or space.now,
  })
  return ff.accept(space, run, waitpoint, signal, {
    actor = command.actor, dedup_key = command.dedup_ttl_ms ~= 0 and command.idempotency_key or '',
    dedup_ttl_ms = command.dedup_ttl_ms, maxlen = command.signal_maxlen,
    limit = command.max_signals_per_execution or run.policy.max_signals, delay_ms = command.resume_delay_ms,
  })
end)
