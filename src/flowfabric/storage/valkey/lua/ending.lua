-- End an active execution: model/machine/ending.py and closing.py.

-- Close those of some waitpoints that are still open.
function ff.close_waitpoints(space, run, waitpoint_ids, reason)
  for i = 1, #waitpoint_ids do
    local waitpoint = space:get('waitpoint', run.execution_id, waitpoint_ids[i])
    if waitpoint and waitpoint.state ~= 'closed' then
      space:put('waitpoint', ff.replace(waitpoint, {
        state = 'closed', closed_at = space.now, close_reason = reason,
      }), run.execution_id, waitpoint_ids[i])
    end
  end
end

-- End an active execution in any way: its attempt, its stream, its pending waitpoints, and every time that was running.
-- Given where they matter: the reason, and how its attempt and the execution itself differ.
function ff.finish(space, run, row, actor, reason, attempt_changes, changes)
  if run.has_stream then ff.close_stream(space, run, row.closes_stream, row.closes_stream == 'reclaimed') end
  if not ff.quiet(run) and run.pending_waitpoints[1] then
    local ids = {}
    for i = 1, #run.pending_waitpoints do ids[i] = run.pending_waitpoints[i][1] end
    ff.close_waitpoints(space, run, ids, 'execution_ended')
  end
  local attempt = ff.end_attempt(space, run, row.attempt_life, attempt_changes)
  local ended = ff.move(run, row, space.now, changes)
  ended.attempt = attempt
  if row.keeps_attempt and attempt.index >= 0 then ended.attempt_state = 'attempt_terminal' end
  ended.completed_at = space.now
  ff.drop_lease(ended)
  ff.forget_waiting(ended)
  ff.forget_lineage(ended)
  ended.attempt_deadline_at = 0
  if not ff.quiet(ended) then
    ended.attempt_timeout_remaining_ms, ended.suspension_timeout_at, ended.pending_waitpoints = 0, 0, {}
  end
  local leased = run.current_lease_id ~= '' and run or nil
  return space:put_execution(ended, row.event, run.public_state, actor, reason, leased)
end
