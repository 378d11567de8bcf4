-- Records: the arrays of model/records.py, read and written by the names of their fields.
--
-- `record.field` looks its place up in a generated table; a name that the record does not have is an error, never nil.
-- `ff.copy` copies one level: a step changes copies, never what it has loaded.

ff.forms = {}

local function declare(name)
  local at, size = ff.fields[name], ff.sizes[name]
  local form = {name = name, at = at, size = size}
  form.__index = function(record, field)
    local place = at[field]
    if place then return rawget(record, place) end
    if type(field) == 'number' then return nil end
    error('a ' .. name .. ' has no field ' .. tostring(field))
  end
  form.__newindex = function(record, field, value)
    local place = at[field]
    if not place then
      if type(field) ~= 'number' then error('a ' .. name .. ' has no field ' .. tostring(field)) end
      place = field
    end
    rawset(record, place, value)
  end
  ff.forms[name] = form
end

for i = 1, #ff.names do declare(ff.names[i]) end

-- In the checked library (places.py): the record, if it is what the name of its variable says.
function ff.known(record, name)
  local form = getmetatable(record)
  local is_a = name == 'HolderCommand' and form and form.at.fence == ff.fields[name].fence
  if form ~= ff.forms[name] and not is_a then error('not a ' .. name .. ' but ' .. (form and form.name or type(record)), 2) end
  return record
end

-- Give an array the names of a form.
function ff.as(name, array)
  return setmetatable(array, ff.forms[name])
end

function ff.copy(record)
  local form = getmetatable(record)
  if form.hot and record[1] then return setmetatable({unpack(record, 1, form.hot)}, form) end -- executions.lua
  return setmetatable({unpack(record, 1, form.size)}, form)
end

-- Change fields of a draft.
function ff.change(record, changes)
  local at = getmetatable(record).at
  for field, value in pairs(changes) do record[at[field] or field] = value end
  return record
end

function ff.replace(record, changes)
  return ff.change(ff.copy(record), changes)
end

-- A new record: what is not given has the default of the Python class.
function ff.new(name, values)
  local form = ff.forms[name]
  return ff.change(setmetatable({unpack(ff.defaults[name], 1, form.size)}, form), values)
end

-- A stored record may be older and shorter than the class of today; a newer one is refused, never guessed.
function ff.grown(name, array)
  local size = ff.forms[name].size
  if array[size] == nil then
    for i = #array + 1, size do array[i] = ff.defaults[name][i] end
  end
  local version = ff.fields[name].version
  if version and array[version] > ff.RECORD_VERSION then ff.refuse_newer(name, array[version]) end
  return ff.as(name, array)
end

function ff.refuse_newer(name, version)
  ff.refuse('schema_too_new', {}, '', 'a stored ' .. name .. ' has version ' .. version)
end

-- Records are packed as they are; one with bytes in it is [record with '' in their place, bytes].

function ff.pack(record)
  local form = getmetatable(record)
  local place = ff.bytes_at[form.name]
  if not place then return cmsgpack.pack(record) end
  local bytes = record[place]
  rawset(record, place, '')
  local packed = cmsgpack.pack(record)
  rawset(record, place, bytes)
  return '\146' .. packed .. '\198' .. struct.pack('>I4', #bytes) .. bytes
end

function ff.unpack(name, value)
  local place = ff.bytes_at[name]
  if not place then return ff.grown(name, cmsgpack.unpack(value)) end
  local offset, array = cmsgpack.unpack_one(value, 1)
  local record = ff.grown(name, array)
  rawset(record, place, string.sub(value, offset + 6))
  return record
end
