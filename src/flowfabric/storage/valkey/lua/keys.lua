-- Key names, all of them (docs/valkey.md lists them; keys.py knows the same names for reading).
--
-- What belongs to one execution begins with `ff:<execution id>`, whose `{fp:N}` is the slot. What stands for many
-- executions begins with their home: `ff:` on a single server, `ff:{fp:N}:` for each partition of a cluster, where
-- `ff:{ff}:` is the home of what belongs to no partition. A function is told its home, and touches nothing outside it.

local keys = {}
ff.keys = keys

keys.SINGLE = 'ff:'

function keys.execution(id) return 'ff:' .. id end
function keys.input(id) return 'ff:' .. id .. ':input' end
function keys.policy(id) return 'ff:' .. id .. ':policy' end
function keys.history(id) return 'ff:' .. id .. ':history' end          -- list of positions in the feed
function keys.steps(id) return 'ff:' .. id .. ':steps' end              -- zset by call: names of stored steps
function keys.heads(id) return 'ff:' .. id .. ':heads' end              -- hash: of each stored step all but its result
function keys.frames(id, attempt) return 'ff:' .. id .. ':frames:' .. attempt end
function keys.partition(id)                                             -- zset by text: its executions' uuids
  return 'ff:' .. string.match(id, '^{[^}]*}') .. ':ids'
end
function keys.partition_of(id, namespace) return keys.partition(id) .. ':' .. namespace end -- those of a namespace

-- Whether an execution lives in a home of a cluster.
function keys.is_in(home, id) return 'ff:' .. string.match(id, '^{[^}]*}') .. ':' == home end

-- Channels: what is said there wakes whoever listens to the topic of the same name.
function keys.channel(topic) return 'ff:wake:' .. topic end

-- Names that are asked for again and again, by two parts; forgotten when there are too many of them.
local function remembered(make)
  local known, room = {}, 4096
  return function(first, second)
    local inner = known[first]
    local name = inner and inner[second]
    if name then return name end
    if room == 0 then known, room = {}, 4096 end
    inner, name = known[first] or {}, make(first, second)
    known[first], inner[second], room = inner, name, room - 1
    return name
  end
end

local owned = {attempt = true, waitpoint = true, stream = true, summary = true, step = true}

local function of_home(home)
  local at = {
    home = home,
    arrivals = home .. 'arrivals',        -- stream 0-<arrival number>: the id of each execution, in the order they came
    feed = home .. 'feed',                -- stream 0-<position>: every line of history, each standing by itself
    feed_floor = home .. 'feed:floor',    -- up to which position the feed may have gaps
    past = home .. 'past',                -- zset by time of purge: positions in the feed of executions that are gone
    due = home .. 'due',                  -- zset by time: the earliest deadline of each execution
    tally = home .. 'tally',              -- hash lane \0 namespace \0 from \0 to: how many moved
    inbox = home .. 'inbox',              -- zset by position: open waitpoints, as execution id \0 waitpoint id
    inbox_position = home .. 'inbox:position',
    memos = home .. 'memos',              -- zset by expiry: the memos that can be forgotten
    lanes = home .. 'lanes',              -- hash: lane records
    workers = home .. 'workers',          -- hash namespace \0 instance: worker records
    workers_by_expiry = home .. 'workers:expiry', -- zset by expiry: the same names
    workers_by_name = home .. 'workers:names',    -- zset by text: the same names
    tokens = home .. 'tokens',            -- hash: access tokens
    keyring = home .. 'keyring',
    batons = home .. 'batons',            -- hash name: {holder, until}
    tick = home .. 'tick',                -- the last number that was given out here; only on a cluster
  }
  at.route = remembered(function(lane, route)                             -- zset by score: claimable
    return home .. 'claim:' .. lane .. '\0' .. route
  end)
  function at.routes(lane) return home .. 'routes:' .. lane end           -- set of kind \0 capabilities
  at.state = remembered(function(lane, state)                             -- zset by arrival
    return home .. 'state:' .. lane .. '\0' .. state
  end)
  function at.serving(namespace, lane)  -- zset by latest expiry: groups of workers that take the same; with \0 group, its
    return home .. 'serving:' .. namespace .. '\0' .. lane                -- instances by expiry
  end
  function at.total(namespace) return home .. 'total:' .. namespace end   -- hash from \0 to: how many moved; '': of all
  function at.tag(name, value) return home .. 'tag:' .. name .. '\0' .. value end     -- zset by arrival
  function at.flow(id) return home .. 'flow:' .. id end                   -- zset by arrival
  -- The part of a list that belongs to a namespace. The list is the name, without home, of one of those above, `inbox`,
  -- or any:<state>, which only namespaces have.
  at.of_namespace = remembered(function(namespace, list) return home .. 'in:' .. namespace .. '\0' .. list end)
  function at.leases(instance) return home .. 'leases:' .. instance end   -- hash execution id: claim id
  function at.memo(...) return home .. 'memo:' .. table.concat({...}, '\31') end

  -- Where a record of a kind lies: its key, and its field when the key is a hash.
  function at.place(kind, a, b, c)
    if owned[kind] then return 'ff:' .. a .. ':' .. kind, b == 0 and '0' or tostring(b) end
    if kind == 'result' then return 'ff:' .. a .. ':result:' .. (b == 0 and '0' or b) end
    if kind == 'signal' then return 'ff:' .. a .. ':signal:' .. b, tostring(c) end
    if kind == 'suspension' then return 'ff:' .. a .. ':suspension' end
    if kind == 'lane' then return at.lanes, a end
    if kind == 'worker' then return at.workers, a .. '\0' .. b end
    if kind == 'memo' then return at.memo(a, b, c) end
    if kind == 'token' then return at.tokens, a end
    if kind == 'keyring' then return at.keyring end
    error('no place for a ' .. tostring(kind))
  end
  return at
end

local homes = {}

-- The names of what stands for many executions, in one home.
function keys.at(home)
  local known = homes[home]
  if not known then
    known = of_home(home)
    homes[home] = known
  end
  return known
end
