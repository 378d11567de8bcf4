"""Every statement of the SQL stores, in the words that all dialects share.

Parameters are written `?`; a dialect that numbers them rewrites them once. A statement in `FETCH` is asked for a list
of keys: one dialect runs it key by key on a prepared statement, another turns the last comparison into a set.
"""

from __future__ import annotations

from typing import Final, LiteralString

NO_SCORE: Final = -(2**62)
"""Stands for "not claimable" in parameters. Statements turn what stands for nothing (this, 0, '') into null themselves:
drivers bind plain numbers and texts faster than nulls."""

_INDEXES: Final = (
    f"state = ?, claim_score = nullif(?, {NO_SCORE}), due = nullif(?, 0), holder = nullif(?, ''), "
    "claim_id = nullif(?, '')"
)
_BY_ID: Final = "k = (select k from execution where id = ?)"


def _lists(what: LiteralString, table: LiteralString, where: LiteralString) -> dict[str, LiteralString]:
    """Read a list in both directions."""
    return {
        f"list {what} newest": f"select k from {table} where {where} and k < ? order by k desc limit ?",
        f"list {what} oldest": f"select k from {table} where {where} and k > ? order by k limit ?",
    }


FETCH: Final[dict[str, LiteralString]] = {
    # One record: the key comes back first.
    "payload": f"select id, input, policy from execution join payload using (k) where id = ?",  # noqa: F541
    "result": f"select rec from result where {_BY_ID} and attempt = ?",
    "attempt": f"select rec from attempt where {_BY_ID} and i = ?",
    "suspension": f"select rec from suspension where {_BY_ID}",
    "waitpoint": f"select rec from waitpoint where {_BY_ID} and id = ?",
    "signal": f"select rec from signal where {_BY_ID} and waitpoint = ? and n = ?",
    "stream": f"select rec from stream where {_BY_ID} and attempt = ?",
    "summary": f"select rec from summary where {_BY_ID} and attempt = ?",
    "step": f"select rec from step where {_BY_ID} and name = ?",
    "memo": "select rec from memo where key = ?",
    "lane": "select rec from lane where id = ?",
    "worker": "select rec from worker where namespace = ? and instance = ?",
    "keyring": "select rec from keyring where one = 1",
    "token": "select rec from access where id = ?",
    "token*": "select id, rec from access",
    "kind": "select rec from kind where namespace = ? and name = ?",
    "kind_names": "select rec from kind_names where namespace = ?",
    "kind_namespaces": "select rec from kind_namespaces where one = 1",
    # All records of one kind that belong to an execution: the rest of each key, then the record.
    "attempt*": f"select i, rec from attempt where {_BY_ID}",
    "waitpoint*": f"select id, rec from waitpoint where {_BY_ID}",
    "signal*": f"select n, rec from signal where {_BY_ID} and waitpoint = ?",
    # Index questions. Steps are listed by an index that holds all but their results.
    "heads": f"select name, call_index, at, encoding, size from step where {_BY_ID} order by call_index, name",
    "steps": f"select name, call_index, at, encoding, size from step where {_BY_ID} "
    "and (call_index, name) > (?, ?) order by call_index, name limit ?",
    "routes": "select id, lane, kind, capabilities, waiting from route where lane = ? and waiting > 0",
    "leases": "select id, k, rec from execution where holder = ? and claim_id = ?",
    "all leases": "select id, k, rec from execution where holder = ?",
    "head": "select id, k, rec, input, policy from execution join payload using (k) "
    "where route = ? and claim_score is not null order by claim_score, id limit ?",
    "head of namespace": "select id, k, rec, input, policy from execution join payload using (k) "
    "where route = ? and claim_score is not null and namespace = ? order by claim_score, id limit ?",
    "history": f"select rec from history where {_BY_ID} and seq > ? order by seq limit ?",
    "frames": f"select rec from frame where {_BY_ID} and attempt = ? and (ms, seq) >= (?, ?) and (ms, seq) <= (?, ?) "
    "order by ms, seq limit ?",
    "inbox": "select pos, execution.id, waitpoint.rec from waitpoint join execution using (k) "
    "where open = 1 and pos > ? order by pos limit ?",
    "inbox of namespace": "select pos, execution.id, waitpoint.rec from waitpoint join execution using (k) "
    "where open = 1 and waitpoint.namespace = ? and pos > ? order by pos limit ?",
    "feed": "select pos, history.rec, execution.rec from history join execution using (k) "
    "where pos > ? order by pos limit ?",
    "past feed": "select pos, id, namespace, lane, kind, flow_id, rec from past where pos > ? order by pos limit ?",
    "feed_bounds": "select (select value from counter where name = 'feed floor'), "
    "(select value from counter where name = 'history')",
    "workers": "select rec from worker where expires > ? and (namespace, instance) > (?, ?) "
    "order by namespace, instance limit ?",
    "workers of namespace": "select rec from worker where expires > ? and namespace = ? and instance > ? "
    "order by instance limit ?",
    "serving": "select count(*), max(instance) from serving where namespace = ? and lane = ? and expires > ? "
    "group by profile limit ?",
    "held": "select count(*) from execution where holder = ?",
    "held of namespace": "select count(*) from execution where holder = ? and namespace = ?",
    "totals": "select state, n from total where namespace = ?",
    "tallies": "select lane, state, sum(n) from tally where lane >= ? and lane <= ? "
    "group by lane, state having sum(n) > 0 order by lane, state",
    "tallies of namespace": "select lane, state, n from tally "
    "where namespace = ? and lane >= ? and lane <= ? and n > 0 order by lane, state",
    "lane names": "select distinct lane from tally where lane > ? order by lane limit ?",
    "lane records": "select id from lane where id > ? order by id limit ?",
    "lane names of namespace": "select distinct lane from tally where namespace = ? and n > 0 and lane > ? "
    "order by lane limit ?",
    "oldest waiting": "select created from execution where lane = ? and state = 'waiting' order by k limit 1",
    "due": "select id, k, rec from execution where due is not null and due <= ? order by due, id limit ?",
    "next due": "select min(due) from execution where due is not null and due > ?",
    "queue": "select claim_score, id from execution where route = ? and claim_score is not null "
    "and (claim_score, id) > (?, ?) order by claim_score, id limit ?",
    "partition": "select id from execution where id > ? and id < ? order by id limit ?",
    "partition of namespace": "select id from execution where namespace = ? and id > ? and id < ? order by id limit ?",
    # Every partition that has executions, each found by one seek in the index of ids; then a range of it in each.
    "partition tags": "with recursive part(tag) as ("
    "select substr(min(id), 1, instr(min(id), '}')) from execution union all "
    "select (select substr(min(id), 1, instr(min(id), '}')) from execution where id > part.tag || ';') "
    "from part where part.tag is not null) select tag from part where tag is not null",
    "found": "select id from execution where id >= ? and id < ? order by id limit ?",
    "found of namespace": "select id from execution where namespace = ? and id >= ? and id < ? order by id limit ?",
    # Lists: one index drives each; the direction is the statement's last word.
    "list newest": "select k from execution where k < ? order by k desc limit ?",
    "list oldest": "select k from execution where k > ? order by k limit ?",
    **_lists("lane", "execution", "lane = ? and state = ?"),
    **_lists("flow", "execution", "flow_id = ?"),
    **_lists("tag", "tag", "name = ? and value = ?"),
    **_lists("namespace", "execution", "namespace = ? and state = ?"),
    **_lists("flow of namespace", "execution", "namespace = ? and flow_id = ?"),
    **_lists("tag of namespace", "tag", "namespace = ? and name = ? and value = ?"),
}

GATHER: Final[dict[str, LiteralString]] = {
    # `in ?` stands for the dialect's way to compare with many values.
    "executions": "select id, k, rec from execution where id in ?",
    "listed": "select k, rec from execution where k in ?",
}

WRITE: Final[dict[str, LiteralString]] = {
    "insert execution": "insert into execution (k, id, namespace, lane, flow_id, created, route, state, claim_score, "
    f"due, holder, claim_id, rec) values (?, ?, ?, ?, nullif(?, ''), ?, ?, ?, nullif(?, {NO_SCORE}), "
    "nullif(?, 0), nullif(?, ''), nullif(?, ''), ?)",
    "update execution": f"update execution set {_INDEXES}, rec = ? where k = ?",
    "update indexes": f"update execution set {_INDEXES} where k = ?",
    "delete execution": "delete from execution where k = ?",
    "insert payload": "insert into payload (k, input, policy) values (?, ?, ?)",
    "delete payload": "delete from payload where k = ?",
    "insert history": "insert into history (pos, k, seq, rec) values (?, ?, ?, ?)",
    "keep past": "insert into past (pos, gone_at, id, namespace, lane, kind, flow_id, rec) "
    "select pos, ?, ?, ?, ?, ?, ?, rec from history where k = ?",
    "delete history": "delete from history where k = ?",
    "insert tag": "insert into tag (k, namespace, name, value) values (?, ?, ?, ?)",
    "delete tag": "delete from tag where k = ?",
    "put result": "insert into result (k, attempt, rec) values (?, ?, ?) "
    "on conflict (k, attempt) do update set rec = excluded.rec",
    "delete result": "delete from result where k = ?",
    "put attempt": "insert into attempt (k, i, rec) values (?, ?, ?) "
    "on conflict (k, i) do update set rec = excluded.rec",
    "delete attempt": "delete from attempt where k = ?",
    "put suspension": "insert into suspension (k, rec) values (?, ?) on conflict (k) do update set rec = excluded.rec",
    "delete suspension": "delete from suspension where k = ?",
    "put waitpoint": "insert into waitpoint (k, namespace, id, open, rec, pos) values (?, ?, ?, ?, ?, ?) "
    "on conflict (k, id) do update set open = excluded.open, rec = excluded.rec, pos = excluded.pos",
    "update waitpoint": "update waitpoint set open = ?, rec = ? where k = ? and id = ?",
    "delete waitpoint": "delete from waitpoint where k = ?",
    "put signal": "insert into signal (k, waitpoint, n, rec) values (?, ?, ?, ?) "
    "on conflict (k, waitpoint, n) do update set rec = excluded.rec",
    "drop signal": "delete from signal where k = ? and waitpoint = ? and n = ?",
    "delete signal": "delete from signal where k = ?",
    "put stream": "insert into stream (k, attempt, rec) values (?, ?, ?) "
    "on conflict (k, attempt) do update set rec = excluded.rec",
    "delete stream": "delete from stream where k = ?",
    "insert frame": "insert into frame (k, attempt, n, ms, seq, rec) values (?, ?, ?, ?, ?, ?)",
    "trim frame": "delete from frame where k = ? and attempt = ? and n < ?",
    "delete frame": "delete from frame where k = ?",
    "put summary": "insert into summary (k, attempt, rec) values (?, ?, ?) "
    "on conflict (k, attempt) do update set rec = excluded.rec",
    "delete summary": "delete from summary where k = ?",
    "put step": "insert into step (k, name, call_index, at, encoding, size, rec) values (?, ?, ?, ?, ?, ?, ?) "
    "on conflict (k, name) do update set call_index = excluded.call_index, at = excluded.at, "
    "encoding = excluded.encoding, size = excluded.size, rec = excluded.rec",
    "drop step": "delete from step where k = ? and name = ?",
    "delete step": "delete from step where k = ?",
    "put memo": "insert into memo (key, expires, rec) values (?, ?, ?) "
    "on conflict (key) do update set expires = excluded.expires, rec = excluded.rec",
    "put lane": "insert into lane (id, rec) values (?, ?) on conflict (id) do update set rec = excluded.rec",
    "put worker": "insert into worker (namespace, instance, expires, rec) values (?, ?, ?, ?) "
    "on conflict (namespace, instance) do update set expires = excluded.expires, rec = excluded.rec",
    "drop worker": "delete from worker where namespace = ? and instance = ?",
    "put serving": "insert into serving (namespace, lane, profile, instance, expires) values (?, ?, ?, ?, ?) "
    "on conflict (namespace, lane, profile, instance) do update set expires = excluded.expires",
    "drop serving": "delete from serving where namespace = ? and lane = ? and profile = ? and instance = ?",
    "put keyring": "insert into keyring (one, rec) values (1, ?) on conflict (one) do update set rec = excluded.rec",
    "put token": "insert into access (id, rec) values (?, ?) on conflict (id) do update set rec = excluded.rec",
    "drop token": "delete from access where id = ?",
    "put kind": "insert into kind (namespace, name, rec) values (?, ?, ?) "
    "on conflict (namespace, name) do update set rec = excluded.rec",
    "drop kind": "delete from kind where namespace = ? and name = ?",
    "put kind_names": "insert into kind_names (namespace, rec) values (?, ?) "
    "on conflict (namespace) do update set rec = excluded.rec",
    "drop kind_names": "delete from kind_names where namespace = ?",
    "put kind_namespaces": "insert into kind_namespaces (one, rec) values (1, ?) "
    "on conflict (one) do update set rec = excluded.rec",
    "drop kind_namespaces": "delete from kind_namespaces where one = 1",
    "add tally": "insert into tally (lane, namespace, state, n) values (?, ?, ?, ?) "
    "on conflict (lane, namespace, state) do update set n = tally.n + excluded.n",
    "add total": "insert into total (namespace, state, n) values (?, ?, ?) "
    "on conflict (namespace, state) do update set n = total.n + excluded.n",
    "add waiting": "update route set waiting = waiting + ? where id = ?",
    "add route": "insert into route (lane, kind, capabilities) values (?, ?, ?) "
    "on conflict (lane, kind, capabilities) do nothing",
}

OTHER: Final[dict[str, LiteralString]] = {
    "allocate": "update counter set value = value + ? where name = ? returning value",
    "find route": "select id from route where lane = ? and kind = ? and capabilities = ?",
    "take baton": "insert into baton (name, holder, until) values (?, ?, ?) on conflict (name) do update "
    "set holder = excluded.holder, until = excluded.until where baton.holder = excluded.holder or baton.until <= ? "
    "returning holder",
    "drop baton": "delete from baton where name = ? and holder = ?",
    "collect serving": "delete from serving where (namespace, lane, profile, instance) in "
    "(select namespace, lane, profile, instance from serving where expires <= ? order by expires limit ?) "
    "returning instance",
    "collect workers": "delete from worker where (namespace, instance) in "
    "(select namespace, instance from worker where expires <= ? order by expires limit ?) returning instance",
    "collect": "delete from memo where key in (select key from memo where expires <= ? order by expires limit ?) "
    "returning key",
    "forget past": "delete from past where pos in (select pos from past where gone_at <= ? order by gone_at, pos "
    "limit ?) returning pos",
    "raise floor": "update counter set value = ? where name = 'feed floor' and value < ?",
    "get meta": "select value from meta where name = ?",
    "put meta": "insert into meta (name, value) values (?, ?) on conflict (name) do nothing",
}

OWNED: Final = (
    "payload", "result", "attempt", "history", "tag", "suspension", "waitpoint", "signal", "stream", "frame", "summary",
    "step",
)  # fmt: skip
"""Tables that are emptied of an execution when it is purged."""
