#!lua name=ceiling

-- The ceiling on Valkey: a record of as many fields as an execution has, packed into one value, and only the
-- memberships that claiming, expiry and retention need: a lane in order, what is due, a history for each job.
-- Nothing is decided beyond "is it free" and "is it yours".

-- Names in the order in which they are packed, their places, and what a new job has there.
local NAMES, PLACE, FRESH = {}, {}, {}
local function field(name, value)
  local place = #NAMES + 1
  NAMES[place], PLACE[name], FRESH[place] = name, place, value
end

field('id', '') field('namespace', 'default') field('lane', 'bench') field('kind', 'bench') field('creator', '')
field('flow', '') field('created_at', 0) field('needs', '') field('policy', '{}') field('tags', '{}')
field('partition', 0) field('key', '') field('encoding', 'json') field('priority', 0) field('phase', 'runnable')
field('ownership', 'unowned') field('eligibility', 'eligible_now') field('blocking', 'waiting_for_worker')
field('outcome', 'none') field('attempt_state', 'pending_first_attempt') field('state', 'waiting')
field('attempts', 0) field('retries', 0) field('replays', 0) field('reclaims', 0) field('attempt_index', 0)
field('attempt_id', '') field('lease_id', '') field('epoch', 0) field('worker', '') field('instance', '')
field('leased_at', 0) field('expires_at', 0) field('renewed_at', 0) field('renew_by', 0) field('started_at', 0)
field('ended_at', 0) field('moved_at', 0) field('delay_until', 0) field('suspension', '') field('waitpoint', '')
field('progress', 0) field('failure', '') field('deadline_at', 0)

local LANE, DUE = 'bare:lane', 'bare:due'
local LEASE_MS, KEEP_MS = 30000, 86400000

local function read(key)
  local values, job = cmsgpack.unpack(server.call('GET', key)), {}
  for place = 1, #NAMES do job[NAMES[place]] = values[place] end
  return job
end

local function write(key, job)
  local values = {}
  for place = 1, #NAMES do values[place] = job[NAMES[place]] end
  server.call('SET', key, cmsgpack.pack(values))
end

local function note(key, ...)
  server.call('RPUSH', key .. ':history', cmsgpack.pack({...}))
end

local function milliseconds()
  local time = server.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Arguments: an id and its input.
server.register_function('bare_submit', function(_, arguments)
  local id, now = arguments[1], milliseconds()
  local key = 'bare:' .. id
  if server.call('EXISTS', key) == 1 then return 0 end
  local values = {unpack(FRESH)}
  values[PLACE.id], values[PLACE.created_at], values[PLACE.moved_at] = id, now, now
  server.call('SET', key, cmsgpack.pack(values))
  server.call('SET', key .. ':input', arguments[2])
  server.call('ZADD', LANE, now, id)
  note(key, now, 'created')
  return 1
end)

-- Arguments: who, how many, an id for the attempts and one for the leases. Reply: id, epoch, attempt and input of each.
server.register_function('bare_claim', function(_, arguments)
  local worker, now, found = arguments[1], milliseconds(), {}
  for _, id in ipairs(server.call('ZRANGE', LANE, 0, arguments[2] - 1)) do
    local key = 'bare:' .. id
    local job = read(key)
    if job.phase == 'runnable' then
      job.phase, job.ownership, job.eligibility, job.blocking = 'active', 'leased', 'not_applicable', 'none'
      job.attempt_state, job.state = 'running_attempt', 'active'
      job.attempt_index, job.attempts, job.epoch = job.attempts, job.attempts + 1, job.epoch + 1
      job.attempt_id, job.lease_id, job.worker, job.instance = arguments[3], arguments[4], worker, worker
      job.leased_at, job.started_at, job.moved_at = now, now, now
      job.expires_at, job.renew_by = now + LEASE_MS, now + LEASE_MS / 3 * 2
      write(key, job)
      server.call('ZREM', LANE, id)
      server.call('ZADD', DUE, job.expires_at, id)
      note(key, now, 'claimed', job.attempt_index, job.epoch, worker)
      found[#found + 1] = {id, job.epoch, job.attempt_id, server.call('GET', key .. ':input')}
    end
  end
  return found
end)

-- Arguments: an id, epoch, attempt and result. Reply: whether it was the caller's to end.
server.register_function('bare_finish', function(_, arguments)
  local id, now = arguments[1], milliseconds()
  local key = 'bare:' .. id
  local job = read(key)
  local held = job.phase == 'active' and job.epoch == tonumber(arguments[2]) and job.attempt_id == arguments[3]
  if not held or job.expires_at <= now then return 0 end
  job.phase, job.ownership, job.outcome = 'terminal', 'unowned', 'success'
  job.attempt_state, job.state = 'attempt_terminal', 'completed'
  job.lease_id, job.worker, job.instance, job.expires_at = '', '', '', 0
  job.ended_at, job.moved_at = now, now
  write(key, job)
  server.call('SET', key .. ':result', arguments[4])
  server.call('ZADD', DUE, now + KEEP_MS, id)
  note(key, now, 'completed', job.attempt_index, job.epoch)
  return 1
end)
