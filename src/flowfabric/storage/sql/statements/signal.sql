-- Signals that were delivered to waitpoints.

-- signal (id, waitpoint, number): Read a signal.
select record from signal
where execution_key = (select execution_key from execution where id = ?) and waitpoint = ? and number = ?;

-- signal* (id, waitpoint): Read every signal of a waitpoint.
select number, record from signal
where execution_key = (select execution_key from execution where id = ?) and waitpoint = ?;

-- put signal (execution_key, waitpoint, number, record): Store a signal.
insert into signal (execution_key, waitpoint, number, record) values (?, ?, ?, ?)
on conflict (execution_key, waitpoint, number) do update set record = excluded.record;

-- drop signal (execution_key, waitpoint, number): Delete a signal.
delete from signal where execution_key = ? and waitpoint = ? and number = ?;
