-- Waitpoint tokens: minting and verifying, model/tokens.py. A secret never leaves the server: no reply, no error text.

-- What follows from a secret alone: the states after the padded key, inner and outer. Few keys live at a time.
local MAX_STATES = 32
local states, kept = {}, 0

local function pad(key, with)
  local padded = string.gsub(key .. string.rep('\0', 64 - #key), '.', function(byte)
    return string.char(bit.bxor(string.byte(byte), with))
  end)
  return ff.sha256_blocks(padded)
end

local function states_of(secret_hex)
  local known = states[secret_hex]
  if known then return known end
  if secret_hex == '' or #secret_hex % 2 == 1 or string.find(secret_hex, '[^0-9a-fA-F]') then
    ff.refuse('invalid_secret')
  end
  local key = string.gsub(secret_hex, '..', function(pair) return string.char(tonumber(pair, 16)) end)
  if #key > 64 then key = ff.sha256_end(key, nil, 0) end
  if kept >= MAX_STATES then states, kept = {}, 0 end
  known = {inner = pad(key, 0x36), outer = pad(key, 0x5c)}
  states[secret_hex], kept = known, kept + 1
  return known
end

local function digest(secret_hex, id, waitpoint)
  local state = states_of(secret_hex)
  local message = id .. '|' .. waitpoint.waitpoint_id .. '|' .. waitpoint.waitpoint_key .. '|'
    .. ff.digits(waitpoint.created_at)
  local sum = ff.sha256_end(ff.sha256_end(message, state.inner, 64), state.outer, 64)
  return (string.gsub(sum, '.', function(byte) return string.format('%02x', string.byte(byte)) end))
end

-- Every byte is looked at, wherever the first difference is.
local function same(left, right)
  if #left ~= #right then return false end
  local difference = 0
  for i = 1, #left do
    difference = bit.bor(difference, bit.bxor(string.byte(left, i), string.byte(right, i)))
  end
  return difference == 0
end

local function keyring(space)
  return space:get('keyring') or ff.new('KeyRing', {})
end

-- Keys are {kid, secret, expires_at}; one without a secret is not installed.
local function find(ring, kid)
  for i = 1, #ring.keys do
    if ring.keys[i][1] == kid and ring.keys[i][2] ~= '' then return ring.keys[i] end
  end
end

-- Sign one waitpoint with the current key. waitpoint: waitpoint_id, waitpoint_key, created_at.
function ff.mint_token(space, id, waitpoint)
  local ring = keyring(space)
  local key = ring.current_kid ~= '' and find(ring, ring.current_kid)
  if not key then ff.refuse('hmac_secret_not_initialized') end
  return key[1] .. ':' .. digest(key[2], id, waitpoint)
end

local function verifying_key(space, ring, kid)
  if ring.current_kid == '' then ff.refuse('hmac_secret_not_initialized') end
  local key = find(ring, kid)
  if kid == ring.current_kid then return key or ff.refuse('hmac_secret_not_initialized') end
  if not key then ff.refuse('invalid_token') end
  if key[3] == 0 or key[3] < space.now then ff.refuse('token_expired') end
  return key
end

local function characters(text)
  local _, more = string.gsub(text, '[\128-\191]', '')
  return #text - more
end

-- Accept the token of exactly this waitpoint, or refuse.
function ff.verify_token(space, token, id, waitpoint)
  local ring = keyring(space)
  if token == '' then ff.refuse('missing_token') end
  local kid, given = string.match(token, '^([^:]+):(.*)$')
  if not kid or characters(given) ~= 64 then ff.refuse('invalid_token') end
  local key = verifying_key(space, ring, kid)
  if not same(digest(key[2], id, waitpoint), given) then ff.refuse('invalid_token') end
end
