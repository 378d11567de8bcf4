-- ff_claim (T5, T6, T11): lease the best claimable work that this worker may run, in one step.
--
-- Keys      any of the store
-- Command   Claim
-- Reply     one task for each execution (tasks.lua), the best first; none when there is nothing to do
-- Keeps     every execution has at most one lease; a repeat with the same claim_id, while those leases live, gets the
--           same tasks; "none" is truthful

local function tasks_of(space, runs)
  local tasks = {}
  for i = 1, #runs do tasks[i] = ff.task_parts(space, runs[i]) end
  return tasks
end

local function living(space, command)
  local held, found = space:leases(command.worker_instance_id, command.claim_id), {}
  for i = 1, #held do
    if held[i].lease_expires_at > space.now then found[#found + 1] = held[i] end
  end
  table.sort(found, function(a, b)
    local left, right = ff.score(a), ff.score(b)
    if left ~= right then return left < right end
    return ff.precedes(a.execution_id, b.execution_id)
  end)
  return found
end

ff.operation('ff_claim', 'Claim', function(space, command)
  space:emit('seen', command)
  if command.claim_id ~= '' then
    local held = living(space, command)
    if held[1] then return tasks_of(space, held) end
  end
  local routes = ff.routes(command.lanes, command.kinds, command.capabilities)
  local following = ff.queue(space, routes, command.namespace, command.max_tasks)
  local runs, place = {}, 0
  while #runs < command.max_tasks do
    local run = following()
    if not run then break end
    local lease = {
      worker_id = command.worker_id, worker_instance_id = command.worker_instance_id,
      lease_id = ff.mint(command.mint, 2 * place), ttl_ms = command.lease_ttl_ms, claim_id = command.claim_id,
    }
    runs[#runs + 1] = ff.take(space, run, ff.mint(command.mint, 2 * place + 1), lease)
    place = place + 1
  end
  return tasks_of(space, runs)
end)
