-- Suspensions and waitpoints.

-- suspension (id): Read the suspension of an execution.
select record from suspension where execution_key = (select execution_key from execution where id = ?);

-- waitpoint (id, waitpoint): Read a waitpoint.
select record from waitpoint
where execution_key = (select execution_key from execution where id = ?) and id = ?;

-- waitpoint* (id): Read every waitpoint of an execution.
select id, record from waitpoint where execution_key = (select execution_key from execution where id = ?);

-- inbox (after position, limit): List the open waitpoints of all executions, in the order in which they opened.
select position, execution.id, waitpoint.record from waitpoint join execution using (execution_key)
where open = 1 and position > ? order by position limit ?;

-- inbox of namespace (namespace, after position, limit): List the open waitpoints of a namespace.
select position, execution.id, waitpoint.record from waitpoint join execution using (execution_key)
where open = 1 and waitpoint.namespace = ? and position > ? order by position limit ?;

-- put suspension (execution_key, record): Store the suspension of an execution.
insert into suspension (execution_key, record) values (?, ?)
on conflict (execution_key) do update set record = excluded.record;

-- put waitpoint (execution_key, namespace, waitpoint, open, record, position): Store a waitpoint as the last of the inbox.
insert into waitpoint (execution_key, namespace, id, open, record, position) values (?, ?, ?, ?, ?, ?)
on conflict (execution_key, id)
do update set open = excluded.open, record = excluded.record, position = excluded.position;

-- update waitpoint (open, record, execution_key, waitpoint): Store a waitpoint and keep its position in the inbox.
update waitpoint set open = ?, record = ? where execution_key = ? and id = ?;
