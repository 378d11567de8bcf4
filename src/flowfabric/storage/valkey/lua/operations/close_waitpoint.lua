-- ff_close_waitpoint: close a pending waitpoint that will not be used.
--
-- Keys      the execution
-- Command   CloseWaitpoint
-- Reply     1 when it was closed before, 0 when it is closed now
-- Keeps     one that belongs to a suspension ends with it

ff.operation('ff_close_waitpoint', 'CloseWaitpoint', function(space, command)
  local run = space:execution(command.execution_id)
  local waitpoint = space:get('waitpoint', run.execution_id, command.waitpoint_id)
  if not waitpoint then ff.refuse('waitpoint_not_found', {}, 'waitpoint_id') end
  if waitpoint.state == 'closed' then return 1 end
  if waitpoint.state ~= 'pending' then
    ff.refuse('waitpoint_not_open', {}, 'waitpoint_id', 'it belongs to a suspension and closes with it')
  end
  ff.drop_pending(space, run, {command.waitpoint_id}, command.reason, command.actor)
  return 0
end)
