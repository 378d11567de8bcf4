-- History of executions that are gone, for readers of the feed: each row says by itself what it tells of.

create table past (
    pos integer primary key, gone_at integer not null, id text not null, namespace text not null, lane text not null,
    kind text not null, flow_id text not null, rec blob not null
);
create index past_gone on past (gone_at);
insert into counter values ('feed floor', 0);
