-- Offering signals to a condition: model/evaluation.py. A condition is copied before it changes.
-- A signal here is {ref, waitpoint_key, waitpoint_id, name, source_type, source_identity}, by name.

-- How far a signal gets in a tree; the best that any node says is what it achieved.
local DEAF, REFUSED, REPEATED, COUNTED = 0, 1, 2, 3

local function contains(list, value)
  for i = 1, #list do
    if list[i] == value then return true end
  end
  return false
end

-- A copy of a list with a value at a place.
local function with(list, place, value)
  local copy = {}
  for i = 1, #list do copy[i] = list[i] end
  copy[place] = value
  return copy
end

local function is_sentinel(name)
  return name == ff.sentinels.operator or name == ff.sentinels.timeout
end

local function node_of(array) return ff.as('Node', array) end

local function holds(node)
  if node.kind ~= 'AllOf' then return node.kind ~= 'NeverBySignal' and #node.satisfiers >= node.n end
  for i = 1, #node.members do
    if not holds(node_of(node.members[i])) then return false end
  end
  return true
end

-- The signals that counted: by slot in a list, by time of acceptance in a tree, each once.
function ff.satisfiers(condition)
  local filled = {}
  for i = 1, #condition.slots do
    if condition.slots[i] ~= '' then filled[#filled + 1] = condition.slots[i] end
  end
  return filled
end

local function satisfied(condition)
  if condition.tree[1] then return holds(node_of(condition.tree[1])) end
  local filled = #ff.satisfiers(condition)
  return filled > 0 and filled >= (condition.mode == 'all' and #condition.slots or condition.minimum)
end

local function offer_list(condition, signal)
  local effects = ff.signal_effects
  local elsewhere = condition.waitpoint_key ~= '' and condition.waitpoint_key ~= signal.waitpoint_key
  if elsewhere or is_sentinel(signal.name) or contains(condition.slots, signal.ref) then
    return condition, effects.NO_OP
  end
  for i = 1, #condition.names do
    local name = condition.names[i]
    if condition.slots[i] == '' and (name == '' or name == signal.name) then
      return ff.replace(condition, {slots = with(condition.slots, i, signal.ref)}), effects.APPENDED
    end
  end
  return condition, effects.NO_OP
end

local function token_of(node, signal)
  if node.count_kind == 'DistinctSources' then return signal.source_type .. '\0' .. signal.source_identity end
  if node.count_kind == 'DistinctWaitpoints' then return signal.waitpoint_id end
  return signal.ref
end

-- Give a node its share of a signal, and say how far the signal got.
local function feed(node, signal)
  if node.kind == 'AllOf' then
    local members, furthest = {}, DEAF
    for i = 1, #node.members do
      local member, reached = feed(node_of(node.members[i]), signal)
      members[i], furthest = member, math.max(furthest, reached)
    end
    return ff.replace(node, {members = members}), furthest
  end
  if not contains(node.waitpoint_keys, signal.waitpoint_key) then return node, DEAF end
  if (node.matcher ~= '' and node.matcher ~= signal.name) or is_sentinel(signal.name) then return node, REFUSED end
  local token, room = token_of(node, signal), node.kind == 'Count' and ff.limits.SIGNAL_LIST_LENGTH or 1
  if contains(node.satisfiers, token) or #node.satisfiers >= room then return node, REPEATED end
  return ff.replace(node, {satisfiers = with(node.satisfiers, #node.satisfiers + 1, token)}), COUNTED
end

local function offer_tree(condition, signal)
  local effects = ff.signal_effects
  local root, reached = feed(node_of(condition.tree[1]), signal)
  if reached == COUNTED then
    local slots = with(condition.slots, #condition.slots + 1, signal.ref)
    return ff.replace(condition, {tree = {root}, slots = slots}), effects.APPENDED
  end
  return condition, ({[DEAF] = effects.NOT_IN_CONDITION, [REFUSED] = effects.MATCHER_FAILED,
    [REPEATED] = effects.DUPLICATE})[reached]
end

-- Let a signal of a waitpoint count: the new condition, and the effect. A satisfied condition changes no more.
function ff.offer(condition, waitpoint, signal)
  condition = ff.as('Condition', condition)
  if satisfied(condition) then return condition, ff.signal_effects.NO_OP end
  local offered = {
    ref = signal.waitpoint_id .. ':' .. ff.digits(signal.number), waitpoint_key = waitpoint.waitpoint_key,
    waitpoint_id = waitpoint.waitpoint_id, name = signal.signal_name, source_type = signal.source_type,
    source_identity = signal.source_identity,
  }
  local changed, effect
  if condition.tree[1] then
    changed, effect = offer_tree(condition, offered)
  else
    changed, effect = offer_list(condition, offered)
  end
  if effect == ff.signal_effects.APPENDED and satisfied(changed) then effect = ff.signal_effects.SATISFIED end
  return changed, effect
end

-- Whether nothing but a timeout ends it.
function ff.needs_timeout(condition)
  local names = ff.as('Condition', condition).names
  return #names == 1 and names[1] == ff.sentinels.timeout
end

local function add_keys(node, keys)
  for i = 1, #node.waitpoint_keys do keys[#keys + 1] = node.waitpoint_keys[i] end
  for i = 1, #node.members do add_keys(node_of(node.members[i]), keys) end
end

-- The waitpoints that a condition listens on, as often as it names them.
function ff.referenced_keys(condition)
  condition = ff.as('Condition', condition)
  local keys = condition.waitpoint_key ~= '' and {condition.waitpoint_key} or {}
  if condition.tree[1] then add_keys(node_of(condition.tree[1]), keys) end
  return keys
end
