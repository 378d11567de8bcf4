-- ff_claim (T5, T6, T11): lease the best claimable work that this worker may run, in one step.
--
-- Keys      any of the store; on a cluster, of one partition
-- Command   Claim
-- Blobs     on a cluster: the score and the id of the best work elsewhere, behind which nothing is taken ('' for none);
--           '' when this call is one of several of the same claim, which is not repeated then, and 'only' when nothing
--           but a repeat is wanted
-- Reply     one task for each execution (tasks.lua), the best first; none when there is nothing to do
-- Keeps     every execution has at most one lease; a repeat with the same claim_id, while those leases live, gets the
--           same tasks; "none" is truthful

local function tasks_of(space, runs)
  local parts = {nil, nil, nil, nil, nil} -- room for one
  for i = 1, #runs do ff.task_parts(space, runs[i], parts) end
  return unpack(parts)
end

local function living(space, command)
  local held, found = space:leases(command.worker_instance_id, command.claim_id), {}
  for i = 1, #held do
    local run = held[i]
    local allowed = command.namespace == '' or command.namespace == run.namespace
    if allowed and run.lease_expires_at > space.now then found[#found + 1] = run end
  end
  table.sort(found, function(a, b)
    local left, right = ff.score(a), ff.score(b)
    if left ~= right then return left < right end
    return ff.precedes(a.execution_id, b.execution_id)
  end)
  return found
end

local function beyond(run, bound)
  local score = ff.score(run)
  if score ~= bound.score then return score > bound.score end
  return ff.precedes(bound.id, run.execution_id)
end

ff.operation('ff_claim', 'Claim', function(space, command, blobs)
  local wish = ff.wish_of(space.call, command)
  if not space.numbers then space:emit('seen', command, wish) end -- on a cluster the caller says it elsewhere: ff_seen
  local bound = blobs[1] and blobs[1] ~= '' and {score = tonumber(blobs[1]), id = blobs[2]}
  if command.claim_id ~= '' and blobs[3] ~= '' then
    local held = living(space, command)
    if held[1] or blobs[3] == 'only' then return tasks_of(space, held) end
  end
  local following = ff.queue_of(space.call, command, wish)
  local runs, base = {}, command.mint
  while #runs < command.max_tasks do
    local run = following(space)
    if not run or (bound and beyond(run, bound)) then break end
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
