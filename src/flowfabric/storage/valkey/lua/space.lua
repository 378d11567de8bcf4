-- The table on which commands are decided, as model/machine/workspace.py: a step reads through it and stages what it
-- writes; run.lua flushes that when the step has succeeded, so that a refusal writes nothing. The commands of one call
-- use it one after the other, and what one has read or written of an execution is known to the next.

local Space = {}
Space.__index = Space
ff.Space = Space

-- In the order of places.INSIDE: call, now, keys, numbers (false on a single server), chance, heads (queues whose best
-- execution may have changed: numbers.lua), cases (id -> what is known of an execution, or false when it does not exist),
-- order (the cases that are staged, in the order in which they first were; `ordered` of them), events (lines of history:
-- of which case, its number there, the packed line; `told` in all), effects (kind and three values each; `emitted` in
-- all), staged (key \0 field -> {kind, record or false, key parts...}) and places (keys of `staged`, in order).
local NONE = {} -- until there is something in them

function ff.new_space(call)
  local numbers = call.numbers or false
  return setmetatable({
    call, call.now, call.keys, numbers, 0, numbers and {}, {}, {nil}, 0, {nil, nil, nil}, 0, {nil, nil, nil, nil}, 0,
    NONE, NONE,
  }, Space)
end

-- The space of a call, for its next command.
function ff.space_for(call, chance)
  local space = call.space
  if not space then
    space = ff.new_space(call)
    call.space = space
  end
  space.chance = chance
  return space
end

-- Nothing is staged any more.
function ff.clear(space)
  space.ordered, space.told, space.emitted = 0, 0, 0
  if space.staged ~= NONE then space.staged, space.places = NONE, NONE end
end

-- Drop what a refused command has staged.
function ff.forget(space)
  for i = 1, space.ordered do
    local case = space.order[i]
    case.staged = false
    if not case.run then space.cases[case.id] = nil end
  end
  ff.clear(space)
end

-- Executions. A case, in the order of places.INSIDE: id; run, as the store holds it; arrival, its number; told, where the
-- newest lines of its history stand; staged, as it will be ('gone' when it goes); input and policy, if they were read;
-- packed, the draft that was packed, with hot and rest of it. What is not there is false.
local function new_case(id)
  return {id, false, false, '', false, false, false, false, false, false}
end

local function learn(space, id, value)
  local case = value and ff.execution_from(id, value)
  space.cases[id] = case or false
  return case
end

-- The execution, or nil. What this step has staged is seen.
function Space:find(id)
  local case = self.cases[id]
  if case == nil then case = learn(self, id, ff.record(self.call, id)) end
  if not case then return nil end
  local staged = case.staged
  if not staged then return case.run end
  return staged ~= 'gone' and staged or nil
end

-- The same, together with its payload. Where nothing but hot fields is set, there is no policy to read.
function Space:find_with_payload(id)
  local case = self.cases[id]
  if case == nil then
    case = learn(self, id, ff.record(self.call, id))
  end
  if not case then return nil end
  if not case.input then case.input = ff.input(self.call, id) end
  if not case.policy then
    local run = case.run
    case.policy = run and run.rest ~= 0 and ff.policy_text(self.call, id) or ''
  end
  return self:find(id)
end

-- The execution; refused with `execution_not_found` when there is none.
function Space:execution(id)
  local run = self:find(id)
  if not run then ff.refuse('execution_not_found', {}, 'execution_id') end
  return run
end

local function stage(space, id, run)
  local case = space.cases[id]
  if not case then
    case = new_case(id)
    space.cases[id] = case
  end
  if not case.staged then
    local last = space.ordered + 1
    space.order[last], space.ordered = case, last
  end
  case.staged = run
  return case
end

-- Write an execution that was decided elsewhere, and a packed line of its history (commit.lua).
Space.stage = stage

function Space:tell(id, seq, line)
  local events, last = self.events, self.told + 3
  events[last - 2], events[last - 1], events[last], self.told = self.cases[id], seq, line, last
end

-- Write a draft of an execution with its line of history (packing.lua says what it tells).
function Space:put_execution(run, event, before, actor, reason, leased, details)
  local seq = run.event_count + 1
  run.event_count = seq
  local case, events, last = stage(self, run.execution_id, run), self.events, self.told + 3
  events[last - 2], events[last - 1], self.told = case, seq, last
  events[last] = ff.pack_line(run, seq, self.now, event, before, actor, reason, leased, details)
  return run
end

-- Write a draft of an execution whose change is not told in its history.
function Space:touch(run)
  run.last_mutation_at = self.now
  stage(self, run.execution_id, run)
end

-- Delete an execution; what belongs to it goes with space:emit('purge', id).
function Space:drop(run)
  stage(self, run.execution_id, 'gone')
end

-- The packed hot fields, and the packed rest, of the draft that is stored: it is not changed any more.
function Space:bytes_of(run)
  local case = self.cases[run.execution_id]
  if case.packed ~= run then
    case.packed, case.hot, case.rest = run, ff.pack_execution(run)
  end
  return case.hot, case.rest
end

-- Other records, by kind and key as in Python: space:get('stream', id, attempt_index).

function Space:get(kind, a, b, c)
  if kind == 'worker' and self.call.seen then ff.settle(self.call) end
  local key, field = self.keys.place(kind, a, b, c)
  local staged = self.staged[key .. '\0' .. (field or '')]
  if staged then return staged.record or nil end
  local value
  if field then value = redis.call('HGET', key, field) else value = redis.call('GET', key) end
  return value and ff.unpack(ff.form_of[kind], value) or nil
end

-- All records of a kind that an execution owns, in no order; for those that lie in one hash.
function Space:children(kind, a, b)
  local key = self.keys.place(kind, a, b or '', '')
  local found, form = {}, ff.form_of[kind]
  local values = redis.call('HGETALL', key)
  for i = 1, #values, 2 do
    if not self.staged[key .. '\0' .. values[i]] then found[#found + 1] = ff.unpack(form, values[i + 1]) end
  end
  for i = 1, #self.places do
    local staged = self.staged[self.places[i]]
    if staged.key == key and staged.record then found[#found + 1] = staged.record end
  end
  return found
end

local function stage_record(space, staged)
  local place = staged.key .. '\0' .. (staged.field or '')
  if space.staged == NONE then space.staged, space.places = {}, {} end
  if not space.staged[place] then space.places[#space.places + 1] = place end
  space.staged[place] = staged
end

-- Write a record; false deletes it. The key comes last: space:put('stream', record, id, attempt_index).
function Space:put(kind, record, a, b, c)
  if kind == 'worker' and self.call.seen then ff.settle(self.call) end
  local key, field = self.keys.place(kind, a, b, c)
  stage_record(self, {kind = kind, record = record, key = key, field = field, a = a, b = b})
end

-- Write a record that was packed elsewhere (commit.lua); it is taken apart where something follows from it.
function Space:put_packed(kind, key, field, packed, a, b)
  local follows = ff.before_put[kind] or ff.after_put[kind]
  local record = packed and (follows and ff.unpack(ff.form_of[kind], packed) or true)
  stage_record(self, {kind = kind, record = record, packed = packed, key = key, field = field, a = a, b = b})
end

-- Write something that is never read back in a step: see effects.lua.
function Space:emit(kind, a, b, c)
  local effects, last = self.effects, self.emitted + 4
  effects[last - 3], effects[last - 2], effects[last - 1], effects[last], self.emitted = kind, a, b, c, last
end
