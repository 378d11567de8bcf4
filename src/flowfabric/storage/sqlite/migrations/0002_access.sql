-- Tokens of people and programs, by their ids; only digests of the tokens are inside.

create table access (id text primary key, rec blob not null) without rowid;
