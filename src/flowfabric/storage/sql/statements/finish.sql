-- Attempts and results.

-- attempt (id, attempt): Read an attempt.
select record from attempt
where execution_key = (select execution_key from execution where id = ?) and attempt = ?;

-- attempt* (id): Read every attempt of an execution.
select attempt, record from attempt where execution_key = (select execution_key from execution where id = ?);

-- result (id, attempt): Read the result of an attempt.
select record from result
where execution_key = (select execution_key from execution where id = ?) and attempt = ?;

-- put attempt (execution_key, attempt, record): Store an attempt.
insert into attempt (execution_key, attempt, record) values (?, ?, ?)
on conflict (execution_key, attempt) do update set record = excluded.record;

-- put result (execution_key, attempt, record): Store the result of an attempt.
insert into result (execution_key, attempt, record) values (?, ?, ?)
on conflict (execution_key, attempt) do update set record = excluded.record;
