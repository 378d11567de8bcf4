-- Key names, all of them (docs/valkey.md lists them; keys.py knows the same names for reading).
--
-- What belongs to one execution begins with `ff:<execution id>`, whose `{fp:N}` is the slot. What stands for all
-- executions is named here for a standalone server; a cluster will have one of each per partition.

local keys = {}
ff.keys = keys

keys.arrivals = 'ff:arrivals'        -- stream 0-<arrival number>: the id of each execution, in the order they came
keys.feed = 'ff:feed'                -- stream 0-<position>: every line of history, each standing by itself
keys.feed_floor = 'ff:feed:floor'    -- up to which position the feed may have gaps
keys.past = 'ff:past'                -- zset by time of purge: positions in the feed of executions that are gone
keys.due = 'ff:due'                  -- zset by time: the earliest deadline of each execution
keys.tally = 'ff:tally'              -- hash lane \0 namespace \0 state: how many executions
keys.inbox = 'ff:inbox'              -- zset by position: open waitpoints, as execution id \0 waitpoint id
keys.inbox_position = 'ff:inbox:position'
keys.memos = 'ff:memos'              -- zset by expiry: the memos that can be forgotten
keys.lanes = 'ff:lanes'              -- hash: lane records
keys.workers = 'ff:workers'          -- hash namespace \0 instance: worker records
keys.tokens = 'ff:tokens'            -- hash: access tokens
keys.keyring = 'ff:keyring'
keys.batons = 'ff:batons'            -- hash name: {holder, until}

function keys.execution(id) return 'ff:' .. id end
function keys.input(id) return 'ff:' .. id .. ':input' end
function keys.policy(id) return 'ff:' .. id .. ':policy' end
function keys.history(id) return 'ff:' .. id .. ':history' end          -- list of positions in the feed
function keys.steps(id) return 'ff:' .. id .. ':steps' end              -- zset by call: names of stored steps
function keys.frames(id, attempt) return 'ff:' .. id .. ':frames:' .. attempt end
function keys.partition(id)                                             -- zset by text: its executions' uuids
  return 'ff:' .. string.match(id, '^{[^}]*}') .. ':ids'
end

function keys.route(lane, kind, capabilities)                           -- zset by score: claimable executions
  return 'ff:claim:' .. lane .. '\0' .. kind .. '\0' .. capabilities
end
function keys.routes(lane) return 'ff:routes:' .. lane end              -- set of kind \0 capabilities
function keys.state(lane, state) return 'ff:state:' .. lane .. '\0' .. state end -- zset by arrival
function keys.tag(name, value) return 'ff:tag:' .. name .. '\0' .. value end     -- zset by arrival
function keys.flow(id) return 'ff:flow:' .. id end                      -- zset by arrival
function keys.leases(instance) return 'ff:leases:' .. instance end      -- hash execution id: claim id
function keys.memo(...) return 'ff:memo:' .. table.concat({...}, '\31') end

-- Channels: what is said there wakes whoever listens to the topic of the same name.
function keys.channel(topic) return 'ff:wake:' .. topic end

-- Where a record of a kind lies: its key, and its field when the key is a hash.
local owned = {result = true, attempt = true, waitpoint = true, stream = true, summary = true, step = true}

function keys.place(kind, a, b, c)
  if owned[kind] then return 'ff:' .. a .. ':' .. kind, tostring(b) end
  if kind == 'signal' then return 'ff:' .. a .. ':signal:' .. b, tostring(c) end
  if kind == 'suspension' then return 'ff:' .. a .. ':suspension' end
  if kind == 'lane' then return keys.lanes, a end
  if kind == 'worker' then return keys.workers, a .. '\0' .. b end
  if kind == 'memo' then return keys.memo(a, b, c) end
  if kind == 'token' then return keys.tokens, a end
  if kind == 'keyring' then return keys.keyring end
  error('no place for a ' .. tostring(kind))
end
