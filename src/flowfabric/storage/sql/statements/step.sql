-- Stored steps. Lists come from an index that holds everything but the results.

-- step (id, name): Read a step.
select record from step where execution_key = (select execution_key from execution where id = ?) and name = ?;

-- heads (id): List all steps of an execution without their results.
select name, call_index, at, encoding, size from step
where execution_key = (select execution_key from execution where id = ?)
order by call_index, name;

-- steps (id, after index, after name, limit): List some steps of an execution without their results.
select name, call_index, at, encoding, size from step
where execution_key = (select execution_key from execution where id = ?) and (call_index, name) > (?, ?)
order by call_index, name limit ?;

-- put step (execution_key, name, call_index, at, encoding, size, record): Store a step.
insert into step (execution_key, name, call_index, at, encoding, size, record) values (?, ?, ?, ?, ?, ?, ?)
on conflict (execution_key, name) do update set
    call_index = excluded.call_index, at = excluded.at, encoding = excluded.encoding, size = excluded.size,
    record = excluded.record;

-- drop step (execution_key, name): Delete a step.
delete from step where execution_key = ? and name = ?;
