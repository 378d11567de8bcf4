-- Who is woken when a call has been decided: the timer, and whoever waits for an execution or a topic.

-- Something new falls due; only the earliest of a call can be the one that the timer waits for.
function ff.note_due(call, id, due)
  if call.due and call.due <= due then return end
  call.due, call.due_id = due, id
end

-- Tell those who watch an execution.
function ff.note_change(call, id)
  local channels = call.channels
  local last = channels[1] + 1
  channels[last], channels[1] = 'ff:wake:execution:' .. id, last
end

-- Tell those who listen to a topic that something has happened to it in a namespace.
function ff.note_topic(call, topic, namespace)
  local whose = call.topics[topic]
  if not whose then
    call.topics[topic] = {namespace}
    return
  end
  for i = 1, #whose do
    if whose[i] == namespace then return end
  end
  whose[#whose + 1] = namespace
end

-- Where much has changed, little of it is watched; on a cluster nobody knows who listens to other servers.
local function tell_listeners(call)
  local channels, namespaces = call.channels, {}
  local last = channels[1]
  for topic, whose in pairs(call.topics) do
    last = last + 1
    channels[last], namespaces[last] = ff.keys.channel(topic), table.concat(whose, '\n')
  end
  if last == 1 then return end
  call.channels, call.topics = {1, nil, nil, nil, nil, nil, nil, nil, nil}, {}
  if last == 2 or call.numbers then
    for i = 2, last do redis.call('PUBLISH', channels[i], namespaces[i] or '') end
    return
  end
  local counts = redis.call('PUBSUB', 'NUMSUB', unpack(channels, 2, last))
  for i = 1, #counts, 2 do
    if counts[i + 1] > 0 then redis.call('PUBLISH', counts[i], namespaces[(i + 3) / 2] or '') end
  end
end

-- The timer is told of what comes before everything else that lies ahead.
local function tell_timer(call)
  local id, due, key = call.due_id, call.due, call.keys.due
  call.due, call.due_id = nil, nil
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if first[1] ~= id and due > call.now then
    if not first[1] or tonumber(first[2]) > call.now then return end
    first = redis.call('ZRANGE', key, '(' .. ff.digits(call.now), '+inf', 'BYSCORE', 'LIMIT', 0, 1)
    if first[1] ~= id then return end
  end
  redis.call('PUBLISH', ff.keys.channel('due'), ff.digits(due))
end

-- Tell whoever waits for what this call has changed.
function ff.wake(call)
  if call.due then tell_timer(call) end
  tell_listeners(call)
end
