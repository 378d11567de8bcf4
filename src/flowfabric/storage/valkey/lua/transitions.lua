-- Moving along the rows of model/transitions.py (ff.T, generated), and the public state that follows.

local HOT = ff.parts.hot

function ff.public_state(phase, eligibility, outcome)
  if phase == 'terminal' then return ff.public_ends[outcome] end
  if phase == 'runnable' then return ff.public_runnable[eligibility] end
  return phase -- suspended, active
end

-- Apply a row to a copy, which the step may change further until it puts it.
function ff.move(run, row, now, changes)
  if not row.before[run.lifecycle_phase]
    or (row.owners and not row.owners[run.ownership_state])
    or (row.eligible and not row.eligible[run.eligibility_state]) then
    error(row.number .. ' cannot start from ' .. run.lifecycle_phase .. ', ' .. run.ownership_state .. ', '
      .. run.eligibility_state)
  end
  local moved = run.tail and setmetatable({unpack(run, 1, HOT)}, ff.forms.Execution) or ff.copy(run)
  moved.last_transition_at, moved.last_mutation_at = now, now
  row.apply(moved)
  if changes then ff.change(moved, changes) end
  if not row.whole then
    moved.public_state = ff.public_state(moved.lifecycle_phase, moved.eligibility_state, moved.terminal_outcome)
  end
  return moved
end
