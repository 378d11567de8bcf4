-- Packing text and numbers one by one, for records and lines that are written for every task (packing.py).

-- What was packed lately, forgotten when there is too much of it.
ff.numbers, ff.texts, ff.heads = {}, {}, {}

local room = {numbers = 0, texts = 0}
local MOST = 512

function ff.packed_number(number)
  if room.numbers == 0 then
    ff.numbers, room.numbers = {}, MOST
    for small = 0, 127 do ff.numbers[small] = string.char(small) end
  end
  local packed = cmsgpack.pack(number)
  ff.numbers[number], room.numbers = packed, room.numbers - 1
  return packed
end

-- Names and states: few are in use.
function ff.packed_name(name)
  if room.texts == 0 then ff.texts, room.texts = {}, MOST end
  local packed = ff.packed_text(name)
  ff.texts[name], room.texts = packed, room.texts - 1
  return packed
end

-- How a text of so many bytes begins.
function ff.packed_head(size)
  if size < 32 then
    ff.heads[size] = string.char(160 + size)
  elseif size < 256 then
    ff.heads[size] = string.char(217, size)
  else
    return size < 65536 and struct.pack('>BI2', 218, size) or struct.pack('>BI4', 219, size)
  end
  return ff.heads[size]
end

function ff.packed_text(text)
  return (ff.heads[#text] or ff.packed_head(#text)) .. text
end

-- The beginning of a packed list.
function ff.list_head(count)
  if count < 16 then return string.char(144 + count) end
  if count < 65536 then return '\220' .. struct.pack('>I2', count) end
  return '\221' .. struct.pack('>I4', count)
end

-- A number among the details of a line: so many texts that name a lease follow, without their names.
local LEASE = '\4'
local LIST_HEADS = {[14] = '\158', [19] = '\220\000\019'} -- of lines without details

-- A line of history, as codec.py reads it: the state before, who did it, and where they matter the reason, the execution
-- whose lease is named, and details ({name, value} pairs).
function ff.pack_line(run, seq, now, event, before, actor, reason, leased, details)
  local texts, name, numbers, number, heads, head = ff.texts, ff.packed_name, ff.numbers, ff.packed_number, ff.heads,
    ff.packed_head
  local index, epoch, id, flow_id, who, count = run.attempt.index, run.current_lease_epoch, run.execution_id, run.flow_id, '', 14
  if leased then
    local lease_id, attempt_id = leased.current_lease_id, leased.current_attempt_id
    local worker, instance = leased.current_worker_id, leased.current_worker_instance_id
    who, count = LEASE .. (heads[#lease_id] or head(#lease_id)) .. lease_id
      .. (heads[#attempt_id] or head(#attempt_id)) .. attempt_id .. (texts[worker] or name(worker))
      .. (texts[instance] or name(instance)), 19
  end
  for i = 1, details and #details or 0 do
    who, count = who .. ff.packed_text(details[i][1]) .. ff.packed_text(details[i][2]), count + 2
  end
  return (LIST_HEADS[count] or ff.list_head(count)) .. (heads[#id] or head(#id)) .. id
    .. (texts[run.namespace] or name(run.namespace)) .. (texts[run.lane_id] or name(run.lane_id))
    .. (texts[run.execution_kind] or name(run.execution_kind)) .. (heads[#flow_id] or head(#flow_id)) .. flow_id
    .. (numbers[seq] or number(seq)) .. (numbers[now] or number(now)) .. (texts[event] or name(event))
    .. (numbers[index] or number(index)) .. (numbers[epoch] or number(epoch)) .. (texts[actor] or name(actor))
    .. (reason and ff.packed_text(reason) or '\160') .. (texts[before] or name(before))
    .. (texts[run.public_state] or name(run.public_state)) .. who
end

-- What an attempt returned, as `ff.pack` packs a Result.
function ff.pack_result(encoding, data)
  return '\146\146\160' .. (ff.texts[encoding] or ff.packed_name(encoding)) .. '\198' .. struct.pack('>I4', #data) .. data
end
