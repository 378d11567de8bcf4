-- What lists of steps show stands beside the results, and in an index of its own: no result is read to list them.

alter table step add column call_index integer not null default 0;
alter table step add column at integer not null default 0;
alter table step add column encoding text not null default '';
alter table step add column size integer not null default 0;
update step set
    call_index = packed(rec, 1), at = packed(rec, 3), encoding = packed(rec, 4), size = packed(rec, 5);
create index step_order on step (k, call_index, name, at, encoding, size);

-- Lists of a namespace, by state, flow, tag or id, and its inbox have indexes of their own: what others have shortens no page.

create index execution_namespace on execution (namespace, state, k);
create index execution_namespace_flow on execution (namespace, flow_id, k) where flow_id is not null;
create index execution_namespace_id on execution (namespace, id);
alter table tag add column namespace text not null default '';
update tag set namespace = (select namespace from execution where execution.k = tag.k);
create index tag_namespace on tag (namespace, name, value, k);
alter table waitpoint add column namespace text not null default '';
update waitpoint set namespace = (select namespace from execution where execution.k = waitpoint.k);
create index waitpoint_namespace on waitpoint (namespace, pos) where open = 1;
