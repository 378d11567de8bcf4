-- What is asked of workers and counts is looked up, however many workers and lanes there are.

create table serving (
    namespace text, lane text, profile blob, instance text, expires integer not null,
    primary key (namespace, lane, profile, instance)
) without rowid;
create index serving_expires on serving (expires);

-- Those that are known say again within seconds that they live, and are indexed then.
delete from worker;
create index worker_expires on worker (expires);

-- Without a namespace: of all.
create table total (namespace text, state text, n integer not null, primary key (namespace, state)) without rowid;
insert into total select namespace, state, sum(n) from tally group by namespace, state;
insert into total select '', state, sum(n) from tally group by state;
create index tally_of on tally (namespace, lane);
