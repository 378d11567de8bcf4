-- ff_unpause_lane: allow claims on a lane again.
--
-- Keys      the lane records
-- Command   UnpauseLane
-- Reply     nothing
-- Keeps     a lane that was never paused is not written

ff.operation('ff_unpause_lane', 'UnpauseLane', function(space, command)
  local lane = space:get('lane', command.lane_id)
  if not lane or lane.paused_at == 0 then return end
  space:put('lane', ff.new('Lane', {version = ff.RECORD_VERSION, lane_id = command.lane_id}), command.lane_id)
end)
