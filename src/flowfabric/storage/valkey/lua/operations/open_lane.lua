-- ff_open_lane: write a lane down, so that everybody lists it.
--
-- Keys      the lane records
-- Command   OpenLane
-- Reply     "paused" | "open": whether claims may take from it
-- Keeps     a lane that is known stays as it is

ff.operation('ff_open_lane', 'OpenLane', function(space, command)
  local lane = space:get('lane', command.lane_id)
  if not lane then
    space:put('lane', ff.new('Lane', {version = ff.RECORD_VERSION, lane_id = command.lane_id}), command.lane_id)
  end
  return lane and lane.paused_at ~= 0 and 'paused' or 'open'
end)
