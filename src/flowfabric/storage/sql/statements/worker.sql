-- Workers, and an index of what they serve.

-- worker (namespace, instance): Read a worker.
-- locks keys
select record from worker where namespace = ? and instance = ?;

-- workers (now, after namespace, after instance, limit): List the workers whose heartbeat has not expired.
select record from worker where expires > ? and (namespace, instance) > (?, ?)
order by namespace, instance limit ?;

-- workers of namespace (now, namespace, after instance, limit): List the live workers of a namespace.
select record from worker where expires > ? and namespace = ? and instance > ? order by instance limit ?;

-- serving (namespace, lane, now, limit): Count the live workers of a lane that take the same; name one of each group.
select count(*), max(instance) from serving where namespace = ? and lane = ? and expires > ?
group by profile limit ?;

-- put worker (namespace, instance, expires, record): Store a worker.
insert into worker (namespace, instance, expires, record) values (?, ?, ?, ?)
on conflict (namespace, instance) do update set expires = excluded.expires, record = excluded.record;

-- drop worker (namespace, instance): Delete a worker.
delete from worker where namespace = ? and instance = ?;

-- put serving (namespace, lane, profile, instance, expires): Index a worker by a lane that it serves.
insert into serving (namespace, lane, profile, instance, expires) values (?, ?, ?, ?, ?)
on conflict (namespace, lane, profile, instance) do update set expires = excluded.expires;

-- drop serving (namespace, lane, profile, instance): Remove a worker from the index of a lane.
delete from serving where namespace = ? and lane = ? and profile = ? and instance = ?;
