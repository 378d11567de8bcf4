-- Kinds that workers have published, by namespace ('': for all).

-- kind (namespace, name): Read a kind.
-- locks keys
select record from kind where namespace = ? and name = ?;

-- kind_names (namespace): Read the names of the kinds of a namespace.
-- locks keys
select record from kind_names where namespace = ?;

-- kind_namespaces (): Read the namespaces that have kinds.
-- locks keys
select record from kind_namespaces where one = 1;

-- put kind (namespace, name, record): Store a kind.
insert into kind (namespace, name, record) values (?, ?, ?)
on conflict (namespace, name) do update set record = excluded.record;

-- drop kind (namespace, name): Delete a kind.
delete from kind where namespace = ? and name = ?;

-- put kind_names (namespace, record): Store the names of the kinds of a namespace.
insert into kind_names (namespace, record) values (?, ?)
on conflict (namespace) do update set record = excluded.record;

-- drop kind_names (namespace): Delete the names of the kinds of a namespace.
delete from kind_names where namespace = ?;

-- put kind_namespaces (record): Store the namespaces that have kinds.
insert into kind_namespaces (one, record) values (1, ?) on conflict (one) do update set record = excluded.record;

-- drop kind_namespaces (): Delete the list of namespaces that have kinds.
delete from kind_namespaces where one = 1;
