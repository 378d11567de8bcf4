-- ff_expire_waitpoints: close pending waitpoints whose time is over.
--
-- Keys      the execution
-- Command   ExpireWaitpoints
-- Reply     what was done, in one word; public state ('' when there is no such execution)
-- Keeps     one whose time is not over stays open

ff.operation('ff_expire_waitpoints', 'ExpireWaitpoints', function(space, command)
  local run = space:find(command.execution_id)
  if not run then return 'not_found_cleaned', '' end
  local over, pending = {}, run.pending_waitpoints
  for i = 1, #pending do
    if pending[i][2] <= space.now then over[#over + 1] = pending[i][1] end
  end
  if not over[1] then return 'not_yet_due', run.public_state end
  return 'closed', ff.drop_pending(space, run, over, ff.NEVER_USED, 'timer').public_state
end)
