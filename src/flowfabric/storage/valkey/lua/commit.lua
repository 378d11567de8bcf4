-- ff_commit: write what the machine of a caller has decided, if everything that it has read is still the same.
--
--   FCALL ff_commit 1 <home> <time> <version> <since> <digest> <packed reads> (<kind of write> <argument ...>)...
--
-- Reads are commands of the server, {verb, argument ...}. They are repeated here, and the SHA-1 of all replies must be
-- `digest`: that covers records, absent records, hashes and the heads of queues alike. `version` is that of the caller's
-- library, because what it decided follows from its program. `since` is when the first of the reads was answered, '' when
-- the caller has a clock of its own. Reply: {1}, on a cluster {3, notes}; or {0, the server's time, replies of the reads
-- now}, and nothing is written.

local MAX_AGE_MS = 2000

-- Append a reply to the text whose digest is compared; save.py writes the same.
local function append_reply(value, parts)
  local kind = type(value)
  if kind == 'string' then
    parts[#parts + 1] = '$' .. #value .. ':'
    parts[#parts + 1] = value
  elseif kind == 'number' then
    parts[#parts + 1] = ':' .. ff.digits(value) .. ';'
  elseif kind == 'table' then
    parts[#parts + 1] = '*' .. #value .. ';'
    for i = 1, #value do append_reply(value[i], parts) end
  else
    parts[#parts + 1] = '-'
  end
end

-- Repeat the reads: all replies, and their digest.
local function repeated(call, reads)
  local parts, replies = {}, {}
  for i = 1, #reads do
    local read = reads[i]
    local reply = redis.call(unpack(read))
    if read[1] == 'GET' then call.records[string.sub(read[2], #ff.keys.SINGLE + 1)] = reply end
    replies[i] = reply
    append_reply(reply, parts)
  end
  return replies, redis.sha1hex(table.concat(parts))
end

-- By kind of write: stage it, and return where the next one begins.
local writes = {}

-- execution <id> <as stored, without its numbers> <fixed fields, '' when they are stored already>
function writes.execution(space, args, at)
  local id, value, fixed = args[at], args[at + 1], args[at + 2]
  local before = space:find(id)
  if fixed == '' then fixed = ff.fixed_part(before) end
  local run = ff.execution_from(id, value .. fixed)[2]
  run.rest = ff.rest_of(run.tail)
  space:stage(id, run)
  return at + 3
end

-- gone <id>
function writes.gone(space, args, at)
  space:find(args[at])
  space:stage(args[at], 'gone')
  return at + 1
end

-- event <id> <its number> <packed line>
function writes.event(space, args, at)
  space:tell(args[at], tonumber(args[at + 1]), args[at + 2])
  return at + 3
end

-- record <kind> <key> <field or ''> <packed, '' to delete it> <first and second part of its name>
function writes.record(space, args, at)
  local kind, key, field, value, a, b = unpack(args, at, at + 5)
  space:put_packed(kind, key, field ~= '' and field or nil, value ~= '' and value, a, b)
  return at + 6
end

-- payload <id> <input> <policy>
function writes.payload(space, args, at)
  space:emit('payload', args[at], args[at + 1], args[at + 2])
  return at + 3
end

-- frame <id> <attempt> <entry id> <packed>
function writes.frame(space, args, at)
  space:emit('frames', args[at], args[at + 1], {{args[at + 2], args[at + 3]}})
  return at + 4
end

-- trim <id> <attempt> <how many frames stay>
function writes.trim(space, args, at)
  space:emit('trim', args[at], args[at + 1], args[at + 2])
  return at + 3
end

-- drop_steps <id>
function writes.drop_steps(space, args, at)
  space:emit('drop_steps', args[at])
  return at + 1
end

-- purge <id> <attempts> <namespace>
function writes.purge(space, args, at)
  space:emit('purge', args[at], tonumber(args[at + 1]), args[at + 2])
  return at + 3
end

-- seen <packed fields of a Claim>
function writes.seen(space, args, at)
  space:emit('seen', ff.as('Claim', {cmsgpack.unpack(args[at])}), args[at])
  return at + 1
end

-- Whether the decision is too old, or a deadline or a grant of what it changes has passed meanwhile.
local function outdated(space, since)
  if since == '' then return false end
  local then_ms, now = tonumber(since), ff.clock('')
  if now - then_ms > MAX_AGE_MS then return true end
  for i = 1, space.ordered do
    local case = space.order[i]
    local run = case.run
    if run then
      local due, grant = ff.due_at(run), run.grant[1]
      if due > then_ms and due <= now then return true end
      if grant and grant.expires_at >= then_ms and grant.expires_at < now then return true end
    end
  end
  return false
end

local function commit(keys, args)
  if tonumber(args[2]) ~= LIBRARY_VERSION then
    -- The caller looks for the library of its version then, and is refused if this one is newer.
    return {err = 'ERR Function not found: ff_commit of version ' .. args[2]}
  end
  local call = ff.new_call(keys[1], args[1])
  local replies, digest = repeated(call, cmsgpack.unpack(args[5]))
  if digest ~= args[4] then return {0, ff.digits(ff.clock('')), replies} end
  local space, at = ff.space_for(call, 0), 6
  while args[at] do at = writes[args[at]](space, args, at + 1) end
  if outdated(space, args[3]) then return {0, ff.digits(ff.clock('')), replies} end
  ff.flush(space)
  local answer = space.numbers and {3, ff.notes(space)} or {1}
  ff.settle(call, true)
  return answer
end

redis.register_function('ff_commit', commit)
redis.register_function{function_name = 'ff_commit_full', callback = commit, flags = {'allow-oom'}} -- purges free memory
