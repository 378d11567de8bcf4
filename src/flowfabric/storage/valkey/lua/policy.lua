-- What a policy decides: model/policy.py.

local function holds(list, value)
  for i = 1, #list do
    if list[i] == value then return true end
  end
  return false
end

function ff.may_retry(policy, category, retry_count)
  if ff.final_categories[category] or retry_count >= policy.max_retries then return false end
  local allowed = policy.retryable_categories
  if not allowed[1] or holds(allowed, category) then return true end
  return holds(allowed, 'transient') and not holds(ff.failure_categories, category)
end

local function exponential(policy, retry_count)
  local delay = policy.initial_delay_ms
  for _ = 1, math.min(retry_count, ff.limits.MAX_BACKOFF_STEPS) do
    if delay >= policy.max_delay_ms then break end
    delay = delay * policy.multiplier
  end
  return math.floor(math.min(delay, policy.max_delay_ms))
end

function ff.backoff_ms(policy, retry_count, chance)
  local delay = ff.limits.DEFAULT_DELAY_MS
  if policy.backoff == 'exponential' then
    delay = exponential(policy, retry_count)
  elseif policy.backoff == 'fixed' then
    delay = policy.delay_ms
  end
  if not policy.jitter then return delay end
  local low = delay - math.floor(delay / 2)
  return math.min(low + math.floor(chance * (delay - low + 1)), delay)
end
