-- What falls due, what is purged with an execution, and what expires by itself.

-- due (until, limit): Read the executions for which something is due.
select id, execution_key, record from execution where due is not null and due <= ? order by due, id limit ?;

-- next due (after): Return when something is due next.
select min(due) from execution where due is not null and due > ?;

-- keep past (purged at, id, namespace, lane, kind, flow_id, execution_key): Keep the history of a purged execution for the feed.
insert into past (position, gone_at, id, namespace, lane, kind, flow_id, record)
select position, ?, ?, ?, ?, ?, ?, record from history where execution_key = ?;

-- delete execution (execution_key): Purge an execution.
delete from execution where execution_key = ?;

-- delete payload (execution_key): Purge the payload of an execution.
delete from payload where execution_key = ?;

-- delete history (execution_key): Purge the history of an execution.
delete from history where execution_key = ?;

-- delete result (execution_key): Purge the results of an execution.
delete from result where execution_key = ?;

-- delete attempt (execution_key): Purge the attempts of an execution.
delete from attempt where execution_key = ?;

-- delete suspension (execution_key): Purge the suspension of an execution.
delete from suspension where execution_key = ?;

-- delete waitpoint (execution_key): Purge the waitpoints of an execution.
delete from waitpoint where execution_key = ?;

-- delete signal (execution_key): Purge the signals of an execution.
delete from signal where execution_key = ?;

-- delete stream (execution_key): Purge the streams of an execution.
delete from stream where execution_key = ?;

-- delete frame (execution_key): Purge the frames of an execution.
delete from frame where execution_key = ?;

-- delete summary (execution_key): Purge the summaries of an execution.
delete from summary where execution_key = ?;

-- delete step (execution_key): Delete every step of an execution.
delete from step where execution_key = ?;

-- collect memos (now, limit): Delete expired idempotency records.
delete from memo where key in (select key from memo where expires <= ? order by expires limit ?) returning key;

-- collect workers (now, limit): Delete workers whose heartbeat expired.
delete from worker where (namespace, instance) in
    (select namespace, instance from worker where expires <= ? order by expires limit ?)
returning instance;

-- collect serving (now, limit): Delete the index entries of workers whose heartbeat expired.
delete from serving where (namespace, lane, profile, instance) in
    (select namespace, lane, profile, instance from serving where expires <= ? order by expires limit ?)
returning instance;

-- collect past (before, limit): Delete history that was kept for the feed long enough.
delete from past where position in
    (select position from past where gone_at <= ? order by gone_at, position limit ?)
returning position;

-- raise floor (position, position): Note the position after which the feed is complete.
update counter set value = ? where name = 'feed floor' and value < ?;
