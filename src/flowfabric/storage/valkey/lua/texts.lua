-- The order of texts. Plain `<` follows the locale of the server; stores compare bytes, as everywhere else.

function ff.precedes(left, right)
  local shared = math.min(#left, #right)
  for i = 1, shared do
    local a, b = string.byte(left, i), string.byte(right, i)
    if a ~= b then return a < b end
  end
  return #left < #right
end
