-- Kinds that workers have published, by namespace ('' is for all) and name; and the names that there are, for lists.

create table kind (namespace text not null, name text not null, rec blob not null, primary key (namespace, name))
without rowid;
create table kind_names (namespace text primary key, rec blob not null) without rowid;
create table kind_namespaces (one integer primary key check (one = 1), rec blob not null);
