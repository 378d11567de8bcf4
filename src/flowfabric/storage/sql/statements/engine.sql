-- Leader leases, and facts about the database itself.

-- acquire leader lease (name, holder, until, now): Take or extend a lease that is free, expired or one's own.
insert into leader_lease (name, holder, until) values (?, ?, ?)
on conflict (name) do update set holder = excluded.holder, until = excluded.until
    where leader_lease.holder = excluded.holder or leader_lease.until <= ?
returning holder;

-- release leader lease (name, holder): End a leader lease.
delete from leader_lease where name = ? and holder = ?;

-- get meta (name): Read a setting of the database.
select value from meta where name = ?;

-- put meta (name, value): Store a setting of the database, if it has none.
insert into meta (name, value) values (?, ?) on conflict (name) do nothing;
