-- ff_append_frames: append frames to the stream of the running attempt, all or none. Not told in the history.
--
-- Keys      the execution
-- Command   AppendFrames without patches of the summary; `frames` are FrameInputs with their bounds made sense of
-- Blobs     the payloads in their order
-- Reply     for each frame {entry id, frame count}
-- Keeps     only the holder of a live lease appends; ids of a stream only grow

local function owned(space, command)
  local run = space:find(command.execution_id)
  if not run then ff.refuse('stream_closed') end
  local fence = ff.adopt_fence(run, command, false)
  if run.lifecycle_phase ~= 'active' then ff.refuse('stream_closed') end
  if run.ownership_state ~= 'leased' or run.lease_expires_at <= space.now
    or (command.attempt_index and command.attempt_index ~= run.attempt.index) or not ff.holds(run, fence) then
    ff.refuse('stale_owner_cannot_append')
  end
  return run
end

-- A draft of the stream; one whose frames are forgotten begins again after them.
local function opened(space, run, before)
  if not before then
    return ff.new('Stream', {
      version = ff.RECORD_VERSION, attempt_id = run.current_attempt_id, created_at = space.now,
    })
  end
  if before.closed_at ~= 0 then ff.refuse('stream_closed') end
  local stream = ff.copy(before)
  if stream.expires_at ~= 0 and stream.expires_at <= space.now then stream.first = stream.frame_count + 1 end
  return stream
end

local function write(space, run, before, stream, frames, ids)
  local id, attempt = run.execution_id, run.attempt.index
  if not before then space:touch(ff.replace(run, {has_stream = true})) end
  space:put('stream', stream, id, attempt)
  local kept = {} -- what the same call has pushed out again need not be stored first
  for i = 1, #frames do
    local frame = frames[i]
    if frame.number >= stream.first then kept[#kept + 1] = {ids[i], ff.pack(frame)} end
  end
  space:emit('frames', id, attempt, kept)
  if before and stream.first > before.first then
    space:emit('trim', id, attempt, stream.frame_count - stream.first + 1)
  end
end

ff.operation('ff_append_frames', 'AppendFrames', function(space, command, blobs)
  local run, now = owned(space, command), space.now
  local id, attempt, inputs = run.execution_id, run.attempt.index, command.frames
  local before = run.has_stream and space:get('stream', id, attempt) or nil
  local stream = opened(space, run, before)
  local frames, ids, answer = {}, {}, {}
  for i = 1, #inputs do
    local sent = ff.as('FrameInput', inputs[i])
    frames[i] = ff.take_frame(stream, run, sent, blobs[i], now)
    ids[i] = ff.digits(stream.last_ms) .. '-' .. ff.digits(stream.last_seq)
    answer[i] = {ids[i], stream.frame_count}
  end
  write(space, run, before, stream, frames, ids)
  return unpack(answer)
end)
