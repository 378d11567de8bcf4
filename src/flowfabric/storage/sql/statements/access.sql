-- Access tokens and the keys of waitpoint tokens.

-- keyring (): Read the keys that sign waitpoint tokens.
-- locks shared keys
select record from keyring where one = 1;

-- token (id): Read an access token.
-- locks keys
select record from token where id = ?;

-- token* (): Read every access token.
-- locks table
select id, record from token;

-- put keyring (record): Store the keys that sign waitpoint tokens.
insert into keyring (one, record) values (1, ?) on conflict (one) do update set record = excluded.record;

-- put token (id, record): Store an access token.
insert into token (id, record) values (?, ?) on conflict (id) do update set record = excluded.record;

-- drop token (id): Delete an access token.
delete from token where id = ?;
