-- History, the feed, and lists of executions. One index drives each list.

-- history (id, after seq, limit): Read the history of an execution.
select record from history
where execution_key = (select execution_key from execution where id = ?) and seq > ? order by seq limit ?;

-- feed (after position, limit): Read the history of all executions, in the order in which it was written.
select position, history.record, execution.record from history join execution using (execution_key)
where position > ? order by position limit ?;

-- past feed (after position, limit): Read the kept history of purged executions.
select position, id, namespace, lane, kind, flow_id, record from past where position > ? order by position limit ?;

-- feed_bounds (): Return the position after which the feed is complete, and the last position.
select (select value from counter where name = 'feed floor'), (select value from counter where name = 'history');

-- totals (namespace): Count the executions of a namespace ('': of all) by state.
select state, executions from total where namespace = ?;

-- partition (after id, before id, limit): List ids in a range.
select id from execution where id > ? and id < ? order by id limit ?;

-- partition of namespace (namespace, after id, before id, limit): List ids of a namespace in a range.
select id from execution where namespace = ? and id > ? and id < ? order by id limit ?;

-- partition tags (): Name every partition that has executions; each is found by one seek in the index of ids.
with recursive part(tag) as (
    select substr(min(id), 1, instr(min(id), '}')) from execution
    union all
    select (select substr(min(id), 1, instr(min(id), '}')) from execution where id > part.tag || ';')
    from part where part.tag is not null
)
select tag from part where tag is not null;

-- found (first id, before id, limit): List ids that begin alike.
select id from execution where id >= ? and id < ? order by id limit ?;

-- found of namespace (namespace, first id, before id, limit): List ids of a namespace that begin alike.
select id from execution where namespace = ? and id >= ? and id < ? order by id limit ?;

-- listed (keys): Read the executions of a list.
select execution_key, record from execution where execution_key in ?;

-- list newest (before key, limit): List executions, the newest first.
select execution_key from execution where execution_key < ? order by execution_key desc limit ?;

-- list oldest (after key, limit): List executions, the oldest first.
select execution_key from execution where execution_key > ? order by execution_key limit ?;

-- list lane newest (lane, state, before key, limit): List the executions of a lane in a state, the newest first.
select execution_key from execution where lane = ? and state = ? and execution_key < ?
order by execution_key desc limit ?;

-- list lane oldest (lane, state, after key, limit): List the executions of a lane in a state, the oldest first.
select execution_key from execution where lane = ? and state = ? and execution_key > ?
order by execution_key limit ?;

-- list flow newest (flow_id, before key, limit): List the executions of a flow, the newest first.
select execution_key from execution where flow_id = ? and execution_key < ? order by execution_key desc limit ?;

-- list flow oldest (flow_id, after key, limit): List the executions of a flow, the oldest first.
select execution_key from execution where flow_id = ? and execution_key > ? order by execution_key limit ?;

-- list tag newest (name, value, before key, limit): List the executions that have a tag, the newest first.
select execution_key from tag where name = ? and value = ? and execution_key < ? order by execution_key desc limit ?;

-- list tag oldest (name, value, after key, limit): List the executions that have a tag, the oldest first.
select execution_key from tag where name = ? and value = ? and execution_key > ? order by execution_key limit ?;

-- list namespace newest (namespace, state, before key, limit): List the executions of a namespace in a state, the newest first.
select execution_key from execution where namespace = ? and state = ? and execution_key < ?
order by execution_key desc limit ?;

-- list namespace oldest (namespace, state, after key, limit): List the executions of a namespace in a state, the oldest first.
select execution_key from execution where namespace = ? and state = ? and execution_key > ?
order by execution_key limit ?;

-- list flow of namespace newest (namespace, flow_id, before key, limit): List the executions of a flow in a namespace, the newest first.
select execution_key from execution where namespace = ? and flow_id = ? and execution_key < ?
order by execution_key desc limit ?;

-- list flow of namespace oldest (namespace, flow_id, after key, limit): List the executions of a flow in a namespace, the oldest first.
select execution_key from execution where namespace = ? and flow_id = ? and execution_key > ?
order by execution_key limit ?;

-- list tag of namespace newest (namespace, name, value, before key, limit): List the executions of a namespace that have a tag, the newest first.
select execution_key from tag where namespace = ? and name = ? and value = ? and execution_key < ?
order by execution_key desc limit ?;

-- list tag of namespace oldest (namespace, name, value, after key, limit): List the executions of a namespace that have a tag, the oldest first.
select execution_key from tag where namespace = ? and name = ? and value = ? and execution_key > ?
order by execution_key limit ?;
