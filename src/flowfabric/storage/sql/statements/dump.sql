-- Everything that a store holds: the parts of a record's key, then the record.

-- dump execution (): Read every execution.
select id, record from execution;

-- dump payload (): Read every payload.
select id, input, policy from payload join execution using (execution_key);

-- dump result (): Read every result.
select execution.id, attempt, t.record from result t join execution using (execution_key);

-- dump attempt (): Read every attempt.
select execution.id, attempt, t.record from attempt t join execution using (execution_key);

-- dump suspension (): Read every suspension.
select execution.id, t.record from suspension t join execution using (execution_key);

-- dump waitpoint (): Read every waitpoint.
select execution.id, t.id, t.record from waitpoint t join execution using (execution_key);

-- dump signal (): Read every signal.
select execution.id, waitpoint, number, t.record from signal t join execution using (execution_key);

-- dump stream (): Read every stream.
select execution.id, attempt, t.record from stream t join execution using (execution_key);

-- dump summary (): Read every summary.
select execution.id, attempt, t.record from summary t join execution using (execution_key);

-- dump step (): Read every step.
select execution.id, name, t.record from step t join execution using (execution_key);

-- dump memo (): Read every idempotency record.
select key, record from memo;

-- dump lane (): Read every lane.
select id, record from lane;

-- dump worker (): Read every worker.
select namespace, instance, record from worker;

-- dump token (): Read every access token.
select id, record from token;

-- dump keyring (): Read the keys that sign waitpoint tokens.
select record from keyring;

-- dump kind (): Read every kind.
select namespace, name, record from kind;

-- dump kind_names (): Read the names of the kinds of every namespace.
select namespace, record from kind_names;

-- dump kind_namespaces (): Read the namespaces that have kinds.
select record from kind_namespaces;

-- dump history (): Read all history, in the order in which it was written.
select id, t.record from history t join execution using (execution_key) order by position;

-- dump frame (): Read every frame, in order.
select id, attempt, t.record from frame t join execution using (execution_key) order by number;

-- dump past (): Read the kept history of purged executions.
select position, id, namespace, lane, kind, flow_id, record from past;

-- dump indexes (): Read the index columns of every execution.
select id, lane, state, claim_score, due, holder, claim_id, record from execution;

-- dump counts (): Read the stored counts of every lane, namespace and state.
select lane, namespace, state, executions from tally where executions <> 0;
