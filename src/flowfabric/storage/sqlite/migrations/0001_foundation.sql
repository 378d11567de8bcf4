-- Everything hangs on `execution.k`, a small integer; the text id stands in one unique index only.
-- `rec` holds a whole record, packed; the columns beside it are the indexes that follow from it.

create table meta (name text primary key, value text not null) without rowid;

create table counter (name text primary key, value integer not null) without rowid;
insert into counter values ('execution', 0), ('history', 0), ('waitpoint', 0);

create table baton (name text primary key, holder text not null, until integer not null) without rowid;

create table execution (
    k integer primary key,
    id text not null unique,
    namespace text not null,
    lane text not null,
    state text not null,
    route integer not null,
    claim_score integer,          -- null: not claimable
    due integer,                  -- null: nothing happens by itself
    holder text,                  -- the worker instance that holds the lease
    claim_id text,
    flow_id text,
    created integer not null,
    rec blob not null
);
create index execution_claimable on execution (route, claim_score, id) where claim_score is not null;
create index execution_due on execution (due) where due is not null;
create index execution_lane on execution (lane, state, k);
create index execution_lease on execution (holder, claim_id) where holder is not null;
create index execution_flow on execution (flow_id, k) where flow_id is not null;

create table payload (k integer primary key, input blob not null, policy blob not null);
create table result (k integer, attempt integer, rec blob not null, primary key (k, attempt)) without rowid;
create table attempt (k integer, i integer, rec blob not null, primary key (k, i)) without rowid;
create table history (pos integer primary key, k integer not null, seq integer not null, rec blob not null);
create unique index history_of on history (k, seq);
create table tag (name text, value text, k integer, primary key (name, value, k)) without rowid;
create index tag_of on tag (k);

create table suspension (k integer primary key, rec blob not null);
create table waitpoint (
    k integer, id text, pos integer not null, open integer not null, rec blob not null, primary key (k, id)
) without rowid;
create index waitpoint_open on waitpoint (pos) where open = 1;
create table signal (k integer, waitpoint text, n integer, rec blob not null, primary key (k, waitpoint, n)) without rowid;

create table stream (k integer, attempt integer, rec blob not null, primary key (k, attempt)) without rowid;
create table frame (
    k integer, attempt integer, n integer, ms integer not null, seq integer not null, rec blob not null,
    primary key (k, attempt, n)
) without rowid;
create index frame_entry on frame (k, attempt, ms, seq);
create table summary (k integer, attempt integer, rec blob not null, primary key (k, attempt)) without rowid;
create table step (k integer, name text, rec blob not null, primary key (k, name)) without rowid;

create table memo (key text primary key, expires integer not null, rec blob not null) without rowid;
create index memo_expires on memo (expires);
create table lane (id text primary key, rec blob not null) without rowid;
create table route (
    id integer primary key, lane text not null, kind text not null, capabilities text not null,
    waiting integer not null default 0, unique (lane, kind, capabilities)
);
create table tally (
    lane text, namespace text, state text, n integer not null, primary key (lane, namespace, state)
) without rowid;
create table worker (
    namespace text, instance text, expires integer not null, rec blob not null, primary key (namespace, instance)
) without rowid;
create table keyring (one integer primary key check (one = 1), rec blob not null);
