-- ff_set_execution_tags: merge tags into those of an execution, in any phase.
--
-- Keys      the execution
-- Command   SetTags
-- Reply     nothing
-- Keeps     tags are sorted by name, each once, and not too many

local function merged(old, new)
  local values, tags = {}, {}
  for i = 1, #old do values[old[i][1]] = old[i][2] end
  for i = 1, #new do values[new[i][1]] = new[i][2] end
  for name, value in pairs(values) do tags[#tags + 1] = {name, value} end
  table.sort(tags, function(a, b) return ff.precedes(a[1], b[1]) end)
  return tags
end

ff.operation('ff_set_execution_tags', 'SetTags', function(space, command)
  local run = space:execution(command.execution_id)
  local tags, most = merged(run.tags, command.tags), ff.limits.MAX_TAGS
  if #tags > most then
    ff.refuse('invalid_input', {}, 'tags', 'an execution has at most ' .. ff.digits(most) .. ' tags')
  end
  local tagged = ff.replace(run, {head = false, tags = tags, last_mutation_at = space.now})
  space:put_execution(tagged, 'tagged', run.public_state, command.actor, '', nil, command.tags)
end)
