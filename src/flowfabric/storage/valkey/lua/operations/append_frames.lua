-- ff_append_frames: append frames to the stream of the running attempt, all or none. Not told in the history.
--
-- Keys      the execution
-- Command   AppendFrames; `frames` is {sent = FrameInputs with their bounds made sense of} and, when some of them patch
--           the summary, `version` and `updated` of the document that the caller merged them into, and `refusal`
--           {code, text, field, detail...} when that could not be done
-- Blobs     the payloads in their order, then the merged document
-- Reply     "appended", now, and for each frame {entry id, frame count, summary version} | "merge", the stored summary
--           ('' for none): the caller merges again and repeats
-- Keeps     only the holder of a live lease appends; ids of a stream only grow; no patch of the summary is lost

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

-- The stored summary when the caller has merged into another one, else nil: the merge counts.
local function outdated(stored, merged)
  local version, updated = stored and stored.doc_version or 0, stored and stored.last_updated_ms or 0
  if merged.version ~= version or merged.updated ~= updated then return stored and ff.pack(stored) or '' end
  if merged.refusal then
    local code, text, field = unpack(merged.refusal, 1, 3)
    ff.refuse(code, {unpack(merged.refusal, 4)}, field, text)
  end
end

local function write(space, run, before, stream, frames, ids)
  local id, attempt = run.execution_id, run.attempt.index
  if not before then space:touch(ff.replace(run, {has_stream = true})) end
  space:put('stream', stream, id, attempt)
  local kept = {} -- what the same call has pushed out again need not be stored first
  for i = 1, #frames do
    local frame = frames[i]
    if frame.number >= stream.first then kept[#kept + 1] = {ids[i], frame} end
  end
  space:emit('frames', id, attempt, kept)
  if before and stream.first > before.first then
    space:emit('trim', id, attempt, stream.frame_count - stream.first + 1)
  end
end

ff.operation('ff_append_frames', 'AppendFrames', function(space, command, blobs)
  local run, now, merged = owned(space, command), space.now, command.frames
  local id, attempt, inputs = run.execution_id, run.attempt.index, merged.sent
  local before = run.has_stream and space:get('stream', id, attempt) or nil
  local stream = opened(space, run, before)
  local stored = merged.version and space:get('summary', id, attempt)
  local other = merged.version and outdated(stored, merged)
  if other then return 'merge', other end
  local version, frames, ids, answer = merged.version or 0, {}, {}, {'appended', now}
  for i = 1, #inputs do
    local sent = ff.as('FrameInput', inputs[i])
    local patches = sent.mode == 'summary'
    if patches then version = version + 1 end
    frames[i] = ff.take_frame(stream, run, sent, blobs[i], patches and version or 0, now)
    ids[i] = ff.digits(stream.last_ms) .. '-' .. ff.digits(stream.last_seq)
    answer[i + 2] = {ids[i], stream.frame_count, patches and version or 0}
  end
  write(space, run, before, stream, frames, ids)
  if merged.version then
    space:put('summary', ff.new('Summary', {
      document = blobs[#inputs + 1], doc_version = version, patch_kind = merged.patch_kind, last_updated_ms = now,
      first_applied_ms = stored and stored.first_applied_ms or now,
    }), id, attempt)
  end
  return unpack(answer)
end)
