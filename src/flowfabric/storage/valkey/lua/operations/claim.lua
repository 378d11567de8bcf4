-- ff_claim (T5, T6, T11): lease the best claimable work that this worker may run, in one step.
--
-- Keys      any of the store; on a cluster, of one partition
-- Command   Claim
-- Blobs     on a cluster: which part of the claim this call is (Sight, sight.py)
-- Reply     one task for each execution (tasks.lua), the best first; none when there is nothing to do
-- Keeps     every execution has at most one lease; a repeat with the same claim_id, while those leases live, gets the
--           same tasks; "none" is truthful

local function tasks_of(space, runs)
  local parts = {nil, nil, nil, nil, nil} -- room for one
  for i = 1, #runs do ff.task_parts(space, runs[i], parts) end
  return unpack(parts)
end

-- What a worker instance holds from this claim, as long as those leases live, the best first.
local function living(space, command)
  local call, instance, found = space.call, command.worker_instance_id, {}
  local key = space.keys.leases(instance)
  if call.new_leases[key] then ff.settle(call) end
  local held = redis.call('HGETALL', key)
  for i = 1, #held, 2 do
    local run = held[i + 1] == command.claim_id and space:find_with_payload(held[i])
    if run and run.ownership_state == 'leased' and run.current_worker_instance_id == instance
      and run.claim_id == command.claim_id and run.lease_expires_at > space.now
      and (command.namespace == '' or command.namespace == run.namespace) then
      found[#found + 1] = run
    end
  end
  table.sort(found, function(a, b)
    local left, right = ff.score(a), ff.score(b)
    if left ~= right then return left < right end
    return ff.precedes(a.execution_id, b.execution_id)
  end)
  return found
end

-- Whether work lies behind the bound of a sight.
local function hidden(sight, run)
  if sight.bound_id == '' then return false end
  local score = ff.score(run)
  if score ~= sight.bound_score then return score > sight.bound_score end
  return ff.precedes(sight.bound_id, run.execution_id)
end

ff.operation('ff_claim', 'Claim', function(space, command, blobs)
  local wish = ff.wish_of(space.call, command)
  if not space.numbers then space:emit('seen', command, wish) end -- on a cluster the caller says it elsewhere: ff_seen
  local sight = blobs[1] and ff.as('Sight', cmsgpack.unpack(blobs[1]))
  if command.claim_id ~= '' and (not sight or sight.repeats) then
    local held = living(space, command)
    if held[1] or (sight and not sight.takes) then return tasks_of(space, held) end
  end
  local following = ff.queue_of(space.call, command, wish)
  local runs, base = {}, command.mint
  while #runs < command.max_tasks do
    local run = following(space)
    if not run or (sight and hidden(sight, run)) then break end
    local lease = ff.new('Lease', {
      worker_id = command.worker_id, worker_instance_id = command.worker_instance_id,
      lease_id = ff.mint(base, 'lease'), ttl_ms = command.lease_ttl_ms, claim_id = command.claim_id,
    })
    local begun = ff.take(space, run, ff.mint(base, 'attempt'), lease)
    if begun then
      runs[#runs + 1] = begun
      if #runs < command.max_tasks then base = ff.mint(base, 'next') end
    end
  end
  return tasks_of(space, runs)
end)
