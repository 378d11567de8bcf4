-- What lists of steps show stands beside the results, and in an index of its own: no result is read to list them.

alter table step add column call_index integer not null default 0;
alter table step add column at integer not null default 0;
alter table step add column encoding text not null default '';
alter table step add column size integer not null default 0;
update step set
    call_index = packed(rec, 1), at = packed(rec, 3), encoding = packed(rec, 4), size = packed(rec, 5);
create index step_order on step (k, call_index, name, at, encoding, size);
