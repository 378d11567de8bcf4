-- ff_create_execution (T1, T2): write a new execution, or name the one that the id or the key already stands for.
--
-- Keys      the execution
-- Command   CreateExecution; `policy` is the parsed record (Policy), {} without one
-- Blobs     1 input, 2 policy as it came
-- Reply     "created" | "duplicate", execution id, public state ('' once it has been purged); on a cluster "reserved" when
--           the key stands for an id of another partition (ff_reserve), of which nothing can be said here
-- Keeps     an id and a living idempotency key stand for one execution for ever

local function state_of(space, command, id)
  local run = space:find(id)
  return {'duplicate', id, run and run.namespace == command.namespace and run.public_state or ''}
end

local function existing(space, command)
  if command.idempotency_key ~= '' then
    local memo = space:get('memo', 'create', command.namespace, command.idempotency_key)
    if memo and memo.expires_at > space.now then
      local id = cmsgpack.unpack(memo.value)
      if type(id) == 'table' then return {'reserved', id[1], ''} end
      if space.numbers and not ff.keys.is_in(space.keys.home, id) then return {'reserved', id, ''} end
      return state_of(space, command, id)
    end
  end
  local run = space:find(command.execution_id)
  if run and run.namespace ~= command.namespace then ff.refuse('execution_id_taken', {}, 'execution_id') end
  return run and state_of(space, command, command.execution_id)
end

local function record(space, command, policy)
  local now, row = space.now, ff.T.CREATED
  local delay_until = command.delay_until or policy.delay_until
  if command.delay_ms then delay_until = math.min(now + command.delay_ms, ff.limits.MAX_INT) end
  if delay_until > now then row = ff.T.CREATED_DELAYED end
  local deadline = command.execution_deadline_at
  if not deadline then deadline = policy.execution_deadline_ms ~= 0 and now + policy.execution_deadline_ms or 0 end
  local run = ff.new('Execution', {
    version = ff.RECORD_VERSION, execution_id = command.execution_id, namespace = command.namespace,
    lane_id = command.lane_id, execution_kind = command.execution_kind,
    partition = tonumber(string.match(command.execution_id, '^{fp:(%d+)}')),
    priority = ff.clamp_priority(command.priority or policy.priority), creator_identity = command.creator_identity,
    created_at = now, last_transition_at = now, last_mutation_at = now,
    required_capabilities = policy.required_capabilities,
    fairness_key = command.fairness_key ~= '' and command.fairness_key or command.namespace,
    tags = command.tags, payload_encoding = command.payload_encoding, policy = policy,
    retention_ms = policy.retention_ms ~= 0 and policy.retention_ms or ff.limits.DEFAULT_RETENTION_MS,
    delay_until = row == ff.T.CREATED_DELAYED and delay_until or 0,
    execution_deadline_at = math.min(deadline, ff.limits.MAX_INT), attempt = ff.no_attempt(),
  })
  row.apply(run)
  return run
end

function ff.clamp_priority(value)
  return math.max(0, math.min(value, ff.limits.MAX_PRIORITY))
end

ff.operation('ff_create_execution', 'CreateExecution', function(space, command, blobs)
  local known = existing(space, command)
  if known then return unpack(known) end
  local policy = command.policy[1] and ff.as('Policy', command.policy) or ff.no_policy()
  local run = record(space, command, policy)
  if command.idempotency_key ~= '' then
    local window = policy.dedup_window_ms ~= 0 and policy.dedup_window_ms or ff.limits.DEFAULT_DEDUP_MS
    space:put('memo', ff.new('Memo', {
      value = cmsgpack.pack(command.execution_id), expires_at = math.min(space.now + window, ff.limits.MAX_INT),
    }), 'create', command.namespace, command.idempotency_key)
  end
  space:emit('payload', run.execution_id, blobs[1], blobs[2])
  space:put_execution(run, ff.T.CREATED.event, '', command.actor ~= '' and command.actor or command.creator_identity)
  return 'created', run.execution_id, run.public_state
end)
