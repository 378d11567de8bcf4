-- Numbers, ids and trims of a stream: the pure half of model/operations/stream.py, and the rates of model/frames.py.
-- All of them change a draft of the stream.

-- A frame gets its number and its id. A clock that stands or goes back never makes ids go back.
local function count(stream, bytes, now)
  if now > stream.last_ms then
    stream.last_ms, stream.last_seq = now, 0
  else
    stream.last_seq = stream.last_seq + 1
  end
  stream.frame_count, stream.last_frame_at = stream.frame_count + 1, now
  stream.total_bytes = stream.total_bytes + bytes
end

local function keep(stream, entries)
  stream.first = math.max(stream.first, stream.frame_count - entries + 1)
  stream.maxlen_applied_last = entries
end

-- The frames per second after one more.
local function next_rate(stream, sent, seconds, now)
  if stream.last_best_effort_at == 0 then return sent.maxlen_floor / (seconds * 2) end
  local alpha = sent.ema_alpha
  return alpha * (1000 / math.max(now - stream.last_best_effort_at, 1)) + (1 - alpha) * stream.rate_hz
end

local function trim_by_rate(stream, sent, now)
  local seconds = math.max(sent.ttl_ms, 1) / 1000
  local rate = next_rate(stream, sent, seconds, now)
  keep(stream, math.min(math.max(math.ceil(rate * seconds * 2), sent.maxlen_floor), sent.maxlen_ceiling))
  stream.rate_hz, stream.last_best_effort_at = rate, now
  stream.expires_at = stream.has_durable_frame and 0 or math.min(now + 2 * sent.ttl_ms, ff.limits.MAX_INT)
end

-- Drop the oldest frames as the mode of the newest one says, whatever their own modes were.
local function trim(stream, run, sent, now)
  if sent.mode == 'best_effort' then return trim_by_rate(stream, sent, now) end
  local policy = ff.policy_of(run)
  keep(stream, sent.retention_maxlen ~= 0 and sent.retention_maxlen or policy.stream_maxlen)
  stream.has_durable_frame, stream.expires_at = true, 0
end

-- Note the first frame of a lease, which was just counted. The list is replaced, since what was loaded shares it.
local function note_lease(stream, epoch)
  local known = stream.leases
  local size = #known
  if size > 0 and known[size][1] == epoch then return end
  local leases, from = {}, 1
  if size >= ff.limits.MAX_STREAM_LEASES then
    leases[1], from = {known[2][1], known[1][2], known[1][3]}, 3
  end
  for i = from, size do leases[#leases + 1] = known[i] end
  leases[#leases + 1] = {epoch, stream.last_ms, stream.last_seq}
  stream.leases = leases
end

-- Take one frame into a draft of its stream; sent is a FrameInput with its bounds made sense of.
function ff.take_frame(stream, run, sent, payload, now)
  count(stream, #payload, now)
  trim(stream, run, sent, now)
  local epoch = run.current_lease_epoch
  note_lease(stream, epoch)
  return ff.new('Frame', {
    number = stream.frame_count, ms = stream.last_ms, seq = stream.last_seq, frame_type = sent.frame_type,
    ts = sent.ts or now, payload = payload, encoding = sent.encoding, source = sent.source, mode = sent.mode,
    correlation_id = sent.correlation_id, summary_version = 0, ttl_ms = sent.ttl_ms,
    metadata_json = sent.metadata_json, lease_epoch = epoch, step = sent.step,
  })
end
