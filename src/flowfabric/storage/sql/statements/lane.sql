-- Lanes, and how many executions they hold.

-- lane (lane): Read a lane.
-- locks shared keys
select record from lane where id = ?;

-- lane names (after, limit): Name the lanes that have executions.
select distinct lane from tally where lane > ? order by lane limit ?;

-- lane names of namespace (namespace, after, limit): Name the lanes that have executions of a namespace.
select distinct lane from tally where namespace = ? and executions > 0 and lane > ? order by lane limit ?;

-- lane records (after, limit): Name the lanes that have a record.
select id from lane where id > ? order by id limit ?;

-- tallies (first lane, last lane): Count the executions of some lanes by state.
select lane, state, sum(executions) from tally where lane >= ? and lane <= ?
group by lane, state having sum(executions) > 0 order by lane, state;

-- tallies of namespace (namespace, first lane, last lane): Count the executions of a namespace on some lanes by state.
select lane, state, executions from tally
where namespace = ? and lane >= ? and lane <= ? and executions > 0 order by lane, state;

-- oldest waiting (lane): Return when the oldest waiting execution of a lane was created.
select created from execution where lane = ? and state = 'waiting' order by execution_key limit 1;

-- queue (route, after score, after id, limit): List the claimable executions of a queue.
select claim_score, id from execution
where route = ? and claim_score is not null and (claim_score, id) > (?, ?) order by claim_score, id limit ?;

-- put lane (lane, record): Store a lane.
insert into lane (id, record) values (?, ?) on conflict (id) do update set record = excluded.record;
