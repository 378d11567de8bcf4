-- Comparing index columns, counts and queues with the records. These read whole tables.

-- indexed executions (after key, limit): Read executions with their index columns.
-- locks rows
select execution_key, id, state, coalesce(claim_score, -4611686018427387904), coalesce(due, 0), coalesce(holder, ''),
    coalesce(claim_id, ''), record
from execution where execution_key > ? order by execution_key limit ?;

-- update indexes (state, claim_score, due, holder, claim_id, execution_key): Replace the index columns of an execution.
update execution
set state = ?, claim_score = nullif(?, -4611686018427387904), due = nullif(?, 0), holder = nullif(?, ''),
    claim_id = nullif(?, '')
where execution_key = ?;

-- count tallies (): Count the executions of every lane, namespace and state.
select lane, namespace, state, count(*) from execution group by 1, 2, 3 order by 1, 2, 3;

-- all tallies (): Read the stored counts of every lane, namespace and state.
-- locks rows
select lane, namespace, state, executions from tally where executions <> 0 order by 1, 2, 3;

-- delete tallies (): Delete the stored counts of lanes.
delete from tally;

-- count totals (): Sum the counts of lanes for each namespace, and for all ('').
select namespace, state, sum(executions) from tally group by 1, 2 having sum(executions) <> 0
union all
select '', state, sum(executions) from tally group by 2 having sum(executions) <> 0
order by 1, 2;

-- all totals (): Read the stored counts of every namespace and state.
-- locks rows
select namespace, state, executions from total where executions <> 0 order by 1, 2;

-- delete totals (): Delete the stored counts of namespaces.
delete from total;

-- count waiting (): Count the claimable executions of every queue.
select route, count(*) from execution where claim_score is not null group by route;

-- all routes (): Read the stored length of every queue.
-- locks rows
select id, waiting from route;

-- set waiting (executions, route): Store the length of a queue.
update route set waiting = ? where id = ?;
