-- ff_update_progress: store how far the work is. Not told in the history.
--
-- Keys      the execution
-- Command   UpdateProgress
-- Reply     nothing
-- Keeps     what is not given stays; a lease that has run out is left for others to mark

ff.operation('ff_update_progress', 'UpdateProgress', function(space, command)
  local run = ff.hold(space, command, false, false)
  space:touch(ff.replace(run, {
    progress_pct = command.pct or run.progress_pct, progress_message = command.message or run.progress_message,
    progress_updated_at = space.now,
  }))
end)
