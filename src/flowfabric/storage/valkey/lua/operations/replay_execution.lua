-- ff_replay_execution (T26, T27): an ended execution starts again, with its retries and reclaims to use anew.
--
-- Keys      the execution
-- Command   Replay
-- Reply     public state
-- Keeps     only what has ended is replayed, and only as often as its policy allows

-- Drop the steps that the new run must do again; return how many stay, and the index of the next.
local function keep_steps(space, run, command)
  if command.keep_steps then return run.step_count, run.next_step_index end
  if command.from_step == '' then
    if run.step_count ~= 0 then space:emit('drop_steps', run.execution_id) end
    return 0, 0
  end
  local order = ff.keys.steps(run.execution_id)
  local first = redis.call('ZSCORE', order, command.from_step)
  if not first then
    ff.refuse('not_found', {}, 'from_step', 'no step named ' .. command.from_step .. ' is stored')
  end
  local dropped = redis.call('ZRANGE', order, first, '+inf', 'BYSCORE')
  for i = 1, #dropped do space:put('step', false, run.execution_id, dropped[i]) end
  return run.step_count - #dropped, tonumber(first)
end

ff.operation('ff_replay_execution', 'Replay', function(space, command)
  local run = space:execution(command.execution_id)
  if run.lifecycle_phase ~= 'terminal' then ff.refuse('execution_not_terminal') end
  local most = run.policy.max_replay_count
  if run.replay_count >= most then ff.refuse('max_replays_exhausted', {ff.digits(most)}) end
  local row = run.terminal_outcome == 'skipped' and run.flow_id ~= '' and ff.T.REPLAYED_SKIPPED or ff.T.REPLAYED
  local steps, next_step = keep_steps(space, run, command)
  local replayed = ff.move(run, row, space.now, {
    replay_count = run.replay_count + 1, retry_count = 0, lease_reclaim_count = 0, completed_at = 0,
    step_count = steps, next_step_index = next_step,
    current_attempt_id = '', current_suspension_id = '', current_waitpoint_id = '',
    progress_pct = -1, progress_message = '', progress_updated_at = 0,
    execution_deadline_at = run.execution_deadline_at > space.now and run.execution_deadline_at or 0,
    pending_lineage_reason = command.reason ~= '' and command.reason or 'replay',
    pending_requested_by = command.requested_by ~= '' and command.requested_by or command.actor,
    pending_previous_index = run.attempt.index,
  })
  local details = {{'replay_count', ff.digits(replayed.replay_count)}}
  if command.keep_steps then
    details[2] = {'keep_steps', 'true'}
  elseif command.from_step ~= '' then
    details[2] = {'from_step', command.from_step}
  end
  space:put_execution(replayed, row.event, run.public_state, command.actor, command.reason, nil, details)
  return replayed.public_state
end)
