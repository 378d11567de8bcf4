-- Finding claimable work, and the leases of a worker.

-- routes (lane): Read the queues of a lane on which something waits.
select id, lane, kind, capabilities, waiting from route where lane = ? and waiting > 0;

-- head (route, limit): Read the next claimable executions of a queue, with their payloads.
-- locks free rows
select id, execution_key, record, input, policy
from execution join payload using (execution_key)
where route = ? and claim_score is not null
order by claim_score, id limit ?;

-- head of namespace (route, namespace, limit): Read the next claimable executions of a queue in one namespace.
-- locks free rows
select id, execution_key, record, input, policy
from execution join payload using (execution_key)
where route = ? and claim_score is not null and namespace = ?
order by claim_score, id limit ?;

-- leases (holder, claim_id): Read the executions that one claim of a worker holds.
-- locks rows
select id, execution_key, record from execution where holder = ? and claim_id = ?;

-- all leases (holder): Read the executions that a worker holds.
-- locks rows
select id, execution_key, record from execution where holder = ?;

-- held (holder): Count the executions that a worker holds.
select count(*) from execution where holder = ?;

-- held of namespace (holder, namespace): Count the executions of a namespace that a worker holds.
select count(*) from execution where holder = ? and namespace = ?;
