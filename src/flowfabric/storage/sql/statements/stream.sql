-- Frames of attempts, their streams and summaries.

-- stream (id, attempt): Read the state of the stream of an attempt.
select record from stream
where execution_key = (select execution_key from execution where id = ?) and attempt = ?;

-- summary (id, attempt): Read the summary document of an attempt.
select record from summary
where execution_key = (select execution_key from execution where id = ?) and attempt = ?;

-- frames (id, attempt, first ms, first seq, last ms, last seq, limit): Read a range of frames.
select record from frame
where execution_key = (select execution_key from execution where id = ?) and attempt = ?
    and (ms, seq) >= (?, ?) and (ms, seq) <= (?, ?)
order by ms, seq limit ?;

-- put stream (execution_key, attempt, record): Store the state of a stream.
insert into stream (execution_key, attempt, record) values (?, ?, ?)
on conflict (execution_key, attempt) do update set record = excluded.record;

-- put summary (execution_key, attempt, record): Store a summary document.
insert into summary (execution_key, attempt, record) values (?, ?, ?)
on conflict (execution_key, attempt) do update set record = excluded.record;

-- insert frame (execution_key, attempt, number, ms, seq, record): Append a frame.
insert into frame (execution_key, attempt, number, ms, seq, record) values (?, ?, ?, ?, ?, ?);

-- trim frame (execution_key, attempt, number): Delete the frames before a number.
delete from frame where execution_key = ? and attempt = ? and number < ?;
