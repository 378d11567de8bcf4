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

-- A number among the details of a line: so many texts that name a lease follow, without their names.
local LEASE = '\4'

-- A line of history, as codec.py reads it. about: actor, before, and where they matter reason, lease (the execution whose
-- lease is named) and details ({name, value} pairs).
function ff.pack_line(run, seq, now, event, about)
  local leased, details, text, name, number = about.lease, about.details, ff.packed_text, ff.packed_name, ff.packed_number
  local texts, numbers = ff.texts, ff.numbers
  local index, epoch, actor, before = run.attempt.index, run.current_lease_epoch, about.actor, about.before
  local who, worker = '', nil
  if leased then
    worker = leased.current_worker_id
    who = LEASE .. text(leased.current_lease_id) .. text(leased.current_attempt_id) .. (texts[worker] or name(worker))
      .. text(leased.current_worker_instance_id)
  end
  for i = 1, details and #details or 0 do who = who .. text(details[i][1]) .. text(details[i][2]) end
  return ff.list_head(14 + (leased and 5 or 0) + (details and 2 * #details or 0)) .. text(run.execution_id)
    .. (texts[run.namespace] or name(run.namespace)) .. (texts[run.lane_id] or name(run.lane_id))
    .. (texts[run.execution_kind] or name(run.execution_kind)) .. text(run.flow_id)
    .. (numbers[seq] or number(seq)) .. (numbers[now] or number(now)) .. (texts[event] or name(event))
    .. (numbers[index] or number(index)) .. (numbers[epoch] or number(epoch)) .. (texts[actor] or name(actor))
    .. text(about.reason or '') .. (texts[before] or name(before))
    .. (texts[run.public_state] or name(run.public_state)) .. who
end
