-- ff_pause_lane: stop claims on a lane; what waits there shows it when read.
--
-- Keys      the lane records
-- Command   PauseLane
-- Reply     nothing
-- Keeps     a lane that is paused already keeps its time and reason

ff.operation('ff_pause_lane', 'PauseLane', function(space, command)
  local lane = space:get('lane', command.lane_id)
  if lane and lane.paused_at ~= 0 then return end
  space:put('lane', ff.new('Lane', {
    version = ff.RECORD_VERSION, lane_id = command.lane_id, paused_at = space.now, pause_reason = command.reason,
  }), command.lane_id)
end)
