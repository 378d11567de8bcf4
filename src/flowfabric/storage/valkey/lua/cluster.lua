-- Functions that only a cluster needs: looking into all partitions of a node in one call, and signs of life of workers,
-- whose records have a home of their own there.

local function reading(name, act)
  redis.register_function{
    function_name = name, flags = {'no-writes', 'allow-cross-slot-keys'}, callback = act,
  }
end

-- ff_each <home> <partitions of the cluster> <verb> <name> <count> <argument ...> <home ...>: send one command about a key
-- of each of the homes. Reply: up to which number everything has been written on this server, then the replies that
-- are not empty.
reading('ff_each', function(_, args)
  local verb, name, count = args[2], args[3], tonumber(args[4])
  local rest, found = {unpack(args, 5, 4 + count)}, {ff.digits(ff.clock_number(tonumber(args[1])) - 1)}
  for i = 5 + count, #args do
    local reply = redis.call(verb, args[i] .. name, unpack(rest))
    if reply and (type(reply) ~= 'table' or #reply > 0) then found[#found + 1] = reply end
  end
  return found
end)

-- What a worker instance holds from one claim, in a home, as long as those leases live.
local function held(space, keys, command, found)
  local flat = redis.call('HGETALL', keys.leases(command.worker_instance_id))
  for i = 1, #flat, 2 do
    local run = flat[i + 1] == command.claim_id and space:find(flat[i])
    if run and run.ownership_state == 'leased' and run.claim_id == command.claim_id
      and run.current_worker_instance_id == command.worker_instance_id and run.lease_expires_at > space.now
      and (command.namespace == '' or command.namespace == run.namespace) then
      found[#found + 1], found[#found + 2] = flat[i], ff.digits(ff.score(run))
    end
  end
end

-- ff_held <home> <now or ''> <packed Claim> <home ...>: the ids that a claim holds already, each with its score.
reading('ff_held', function(_, args)
  local command, space, found = ff.as('Claim', {cmsgpack.unpack(args[2])}), ff.new_space(ff.new_call(ff.keys.SINGLE, args[1])), {}
  for i = 3, #args do held(space, ff.keys.at(args[i]), command, found) end
  return found
end)

-- How queues begin: home, lane, route, score and id of each that is not empty.
local function begin(fronts, heads)
  for i = 1, #fronts do
    local front = fronts[i]
    local head = redis.call('ZRANGE', front.key, 0, 0, 'WITHSCORES')
    if head[1] then
      for _, part in ipairs({front.home, front.lane, front.route, head[2], head[1]}) do heads[#heads + 1] = part end
    end
  end
end

-- ff_look <home> <now or ''> <packed Claim> <home ...>: look for the best work of a claim, without taking it.
-- Reply: ids that the claim holds already, with their scores, then [score, id, worn ...] of the best, as many as it wants beside those that
-- are worn out (1) and will end instead of being taken, then [home, lane, route, score, id ...] of how every queue of its
-- lanes begins.
reading('ff_look', function(_, args)
  local command = ff.as('Claim', {cmsgpack.unpack(args[2])})
  local space, mine, served, others = ff.new_space(ff.new_call(ff.keys.SINGLE, args[1])), {}, {}, {}
  for i = 3, #args do
    local keys = ff.keys.at(args[i])
    if command.claim_id ~= '' then held(space, keys, command, mine) end
    ff.routes(keys, command.lanes, command.kinds, command.capabilities, served, others)
  end
  local best, heads = {}, {}
  begin(served, heads)
  begin(others, heads)
  local following = ff.queue(served, command.namespace, 1, ff.Space.find)
  local wanted = command.max_tasks
  while wanted > 0 do
    local run = following(space)
    if not run then break end
    local worn = run.lifecycle_phase == 'active' and ff.at_reclaim_cap(run)
    if not worn then wanted = wanted - 1 end
    for _, part in ipairs({ff.digits(ff.score(run)), run.execution_id, worn and 1 or 0}) do best[#best + 1] = part end
  end
  return {mine, best, heads}
end)

-- ff_seen (a claim as a sign of life). Keys: the home of workers. Reply: from when and until when the sign need not be given
-- again.
ff.operation('ff_seen', 'Claim', function(space, command)
  local known = space:get('worker', ff.presence_namespace(command), command.worker_instance_id)
  local worker = ff.presence(command, known, space.now)
  if worker then space:put('worker', worker, ff.presence_namespace(command), command.worker_instance_id) end
  worker = worker or known
  local last = worker.last_heartbeat_at
  return ff.digits(last), ff.digits(last + math.min(ff.limits.RENOTE_MS, math.floor(worker.liveness_ttl_ms / 3)))
end)

-- ff_reserve <home> <time> <namespace> <key> <id or ''> <window> <step>: let an idempotency key stand for an id that lives
-- in another partition. Step '0' reserves it; without an id, it only looks. Until its execution is known to exist, the
-- key holds a list: the id, so that the next caller creates it if this one did not come to it; 1 when several callers
-- were told of it; and what the key held before, when that had expired. Step '1' confirms that the execution exists; step '-'
-- puts back what was there before, unless somebody else was told. Reply: the id that the key stands for, and 0 when it does so
-- from now on, 1 when that is confirmed, 2 when it was reserved before.
redis.register_function('ff_reserve', function(keys, args)
  local space = ff.new_space(ff.new_call(keys[1], args[1]))
  local namespace, key, id, window, step = unpack(args, 2, 6)
  local memo = space:get('memo', 'create', namespace, key)
  local live = memo and memo.expires_at > space.now
  local known = live and cmsgpack.unpack(memo.value)
  if type(known) == 'string' then return {known, 1} end
  local record, until_when = nil, live and memo.expires_at or math.min(space.now + tonumber(window), ff.limits.MAX_INT)
  if known and (step == '0' or known[1] ~= id) then
    if known[2] == 1 or id == '' or step ~= '0' then return {known[1], 2} end
    record = cmsgpack.pack({known[1], 1, known[3], known[4]})
  elseif id == '' or (step == '-' and (not known or known[2] == 1)) then
    return {'', 0}
  elseif step == '1' then
    record = cmsgpack.pack(id)
  elseif step == '0' then
    record = cmsgpack.pack({id, 0, memo and memo.value or '', memo and memo.expires_at or 0})
  elseif known[3] ~= '' then
    record, until_when = known[3], known[4]
  end
  space:put('memo', record and ff.new('Memo', {value = record, expires_at = until_when}) or false,
    'create', namespace, key)
  ff.flush(space)
  return {known and known[1] or id, known and 2 or 0}
end)
