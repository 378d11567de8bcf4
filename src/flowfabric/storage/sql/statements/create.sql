-- Executions and what is written when one is created or changed.
-- Rows of other tables that belong to an execution need no lock of their own: its row is locked before they are read.
-- `nullif` turns 0, '' and -4611686018427387904 (NO_SCORE: not claimable) into null, because drivers bind plain values
-- faster than nulls.

-- executions (ids): Read executions with their integer keys.
-- locks keys
select id, execution_key, record from execution where id in ?;

-- payload (id): Read the input and the policy of an execution.
select id, input, policy from execution join payload using (execution_key) where id = ?;

-- memo (key): Read the idempotency record of a call.
-- locks keys
select record from memo where key = ?;

-- find route (lane, kind, capabilities): Return the number of a queue.
select id from route where lane = ? and kind = ? and capabilities = ?;

-- allocate (count, counter): Reserve as many consecutive numbers; return the last one.
update counter set value = value + ? where name = ? returning value;

-- insert execution (execution_key, id, namespace, lane, flow_id, created, route, state, claim_score, due, holder, claim_id, record): Add an execution.
insert into execution (
    execution_key, id, namespace, lane, flow_id, created, route, state, claim_score, due, holder, claim_id, record
) values (
    ?, ?, ?, ?, nullif(?, ''), ?, ?, ?, nullif(?, -4611686018427387904), nullif(?, 0), nullif(?, ''), nullif(?, ''), ?
);

-- update execution (state, claim_score, due, holder, claim_id, record, execution_key): Replace a record and its index columns.
update execution
set state = ?, claim_score = nullif(?, -4611686018427387904), due = nullif(?, 0), holder = nullif(?, ''),
    claim_id = nullif(?, ''), record = ?
where execution_key = ?;

-- insert payload (execution_key, input, policy): Add the input and the policy of an execution.
insert into payload (execution_key, input, policy) values (?, ?, ?);

-- insert tag (execution_key, namespace, name, value): Index an execution by a tag.
insert into tag (execution_key, namespace, name, value) values (?, ?, ?, ?);

-- delete tag (execution_key): Remove the tags of an execution from the index.
delete from tag where execution_key = ?;

-- insert history (position, execution_key, seq, record): Append a line to the history of an execution.
insert into history (position, execution_key, seq, record) values (?, ?, ?, ?);

-- put memo (key, expires, record): Store the idempotency record of a call.
insert into memo (key, expires, record) values (?, ?, ?)
on conflict (key) do update set expires = excluded.expires, record = excluded.record;

-- add route (lane, kind, capabilities): Number a queue, if it has no number.
insert into route (lane, kind, capabilities) values (?, ?, ?) on conflict (lane, kind, capabilities) do nothing;

-- add tally (lane, namespace, state, executions): Change how many executions of a lane and namespace are in a state.
insert into tally (lane, namespace, state, executions) values (?, ?, ?, ?)
on conflict (lane, namespace, state) do update set executions = tally.executions + excluded.executions;

-- add total (namespace, state, executions): Change how many executions of a namespace ('': of all) are in a state.
insert into total (namespace, state, executions) values (?, ?, ?)
on conflict (namespace, state) do update set executions = total.executions + excluded.executions;

-- add waiting (change, route): Change how many executions of a queue are claimable.
update route set waiting = waiting + ? where id = ?;
