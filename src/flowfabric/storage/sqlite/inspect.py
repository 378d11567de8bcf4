"""Looking at a whole database: for proofs, and to mend indexes that do not follow from their records."""

from __future__ import annotations

from typing import Any, Final

from flowfabric.model.indexes import Placement, placement
from flowfabric.model.records import Execution, Payload
from flowfabric.model.state import Public
from flowfabric.storage.base import Dump, RepairReport
from flowfabric.storage.sql.codec import decode
from flowfabric.storage.sql.load import SEPARATOR, past_entry
from flowfabric.storage.sql.save import index_columns
from flowfabric.storage.sql.statements import NO_SCORE, OTHER, WRITE
from flowfabric.storage.sqlite.session import Session

PAGE: Final = 500
_OWNED: Final = {
    "result": "attempt", "attempt": "i", "waitpoint": "t.id", "signal": "waitpoint, n", "stream": "attempt",
    "summary": "attempt", "step": "name",
}  # fmt: skip


def dump(session: Session) -> Dump:
    """Read everything in one transaction."""
    with session.reading():
        return _dump(session)


def _dump(session: Session) -> Dump:
    rows = session.rows
    records: dict[str, dict[tuple[Any, ...], Any]] = {
        "execution": {(id_,): decode("execution", rec) for id_, rec in rows("select id, rec from execution")},
        "payload": {
            (id_,): Payload(data, policy)
            for id_, data, policy in rows("select id, input, policy from payload join execution using (k)")
        },
        "suspension": {
            (id_,): decode("suspension", rec)
            for id_, rec in rows("select id, t.rec from suspension t join execution using (k)")
        },
        "memo": {_memo_key(key): decode("memo", rec) for key, rec in rows("select key, rec from memo")},
        "lane": {(id_,): decode("lane", rec) for id_, rec in rows("select id, rec from lane")},
        "worker": {
            (ns, i): decode("worker", rec)
            for ns, i, rec in rows("select namespace, instance, rec from worker")
        },
        "token": {(id_,): decode("token", rec) for id_, rec in rows("select id, rec from access")},
        "kind": {
            (ns, name): decode("kind", rec) for ns, name, rec in rows("select namespace, name, rec from kind")
        },
        "kind_names": {
            (ns,): decode("kind_names", rec) for ns, rec in rows("select namespace, rec from kind_names")
        },
        "kind_namespaces": {
            tuple(key): decode("kind_namespaces", rec)
            for *key, rec in rows("select rec from kind_namespaces")
        },
        "keyring": {tuple(key): decode("keyring", rec) for *key, rec in rows("select rec from keyring")},
    }
    for kind, columns in _OWNED.items():
        found = rows(f"select execution.id, {columns}, t.rec from {kind} t join execution using (k)")
        records[kind] = {tuple(key): decode(kind, rec) for *key, rec in found}
    history: dict[str, list[Any]] = {}
    for id_, rec in rows("select id, history.rec from history join execution using (k) order by pos"):
        history.setdefault(id_, []).append(decode("history", rec))
    frames: dict[tuple[str, int], list[Any]] = {}
    for id_, attempt, rec in rows(
        "select id, attempt, frame.rec from frame join execution using (k) order by n"
    ):
        frames.setdefault((id_, attempt), []).append(decode("frame", rec))
    past = rows("select pos, id, namespace, lane, kind, flow_id, rec from past")
    records["past"] = {row[:1]: past_entry(*row) for row in past}
    return Dump(
        records={kind: held for kind, held in records.items() if held},
        indexes={run[0]: {"placement": place} for run, place in _placements(session)},
        history={key: tuple(lines) for key, lines in history.items()},
        frames={key: tuple(kept) for key, kept in frames.items()},
        counts={(lane, ns, state): n for lane, ns, state, n in rows("select * from tally where n <> 0")},
    )


def _memo_key(text: str) -> tuple[str, ...]:
    """Take a key apart: its last part may hold anything, the number of parts follows from the first."""
    return tuple(text.split(SEPARATOR, 3 if text.startswith(f"signal{SEPARATOR}") else 2))


def _placements(session: Session) -> list[tuple[tuple[str], Placement]]:
    """Rebuild the placement of each execution from its index columns alone."""
    found = session.rows(
        "select id, lane, state, claim_score, due, holder, claim_id, created, rec from execution"
    )
    placements = []
    for id_, lane, state, claim_score, due, holder, claim_id, _created, rec in found:
        run: Execution = decode("execution", rec)
        score = claim_score if claim_score is not None else placement(run).score
        place = Placement(
            claim_score is not None, score, lane, Public(state), due or 0, holder or "", claim_id or ""
        )
        placements.append(((id_,), place))
    return placements


def forget_past(session: Session, before: int, limit: int) -> int:
    """Drop history that was kept for the feed alone, and say from where on the feed is whole."""
    with session.writing():
        gone = session.rows(OTHER["forget past"], (before, limit))
        if gone:
            floor = max(gone)[0]
            session.rows(OTHER["raise floor"], (floor, floor))
    return len(gone)


def repair(session: Session, fix: bool) -> RepairReport:
    """Compare index columns, queues and tallies with the records, page by page; mend them when asked to."""
    wrong: list[str] = []
    checked = 0
    last = 0
    while True:
        with session.writing():
            page = session.rows(
                f"select k, id, state, coalesce(claim_score, {NO_SCORE}), coalesce(due, 0), coalesce(holder, ''), "
                "coalesce(claim_id, ''), rec from execution where k > ? order by k limit ?", (last, PAGE),
            )  # fmt: skip
            for k, id_, *columns, rec in page:
                expected = index_columns(placement(decode("execution", rec)))
                if tuple(columns) != expected:
                    wrong.append(f"{id_}: indexed as {tuple(columns)}, its record implies {expected}")
                    if fix:
                        session.rows(WRITE["update indexes"], (*expected, k))
        checked += len(page)
        if len(page) < PAGE:
            break
        last = page[-1][0]
    if fix or not wrong:  # counts of columns that are wrong would say nothing
        with session.writing():
            wrong += _repair_counts(session, fix)
    return RepairReport(checked, tuple(wrong), fix and bool(wrong))


def _repair_counts(session: Session, fix: bool) -> list[str]:
    """Recount tallies and queues from the index columns, which are right by now."""
    wrong: list[str] = []
    tallies = session.rows(
        "select lane, namespace, state, count(*) from execution group by 1, 2, 3 order by 1, 2, 3"
    )
    if session.rows("select * from tally where n <> 0 order by 1, 2, 3") != tallies:
        wrong.append(f"the tallies are not what the records imply: {tallies}")
        if fix:
            session.rows("delete from tally")
            for row in tallies:
                session.rows("insert into tally values (?, ?, ?, ?)", row)
    totals = session.rows(
        "select namespace, state, sum(n) from tally group by 1, 2 having sum(n) <> 0 "
        "union all select '', state, sum(n) from tally group by 2 having sum(n) <> 0 order by 1, 2"
    )
    if (fix or not wrong) and session.rows("select * from total where n <> 0 order by 1, 2") != totals:
        wrong.append(f"the totals are not what the tallies imply: {totals}")
        if fix:
            session.rows("delete from total")
            for row in totals:
                session.rows("insert into total values (?, ?, ?)", row)
    waiting = dict(
        session.rows("select route, count(*) from execution where claim_score is not null group by route")
    )
    for route_id, counted in session.rows("select id, waiting from route"):
        if counted != waiting.get(route_id, 0):
            wrong.append(f"queue {route_id} counts {counted}, the records imply {waiting.get(route_id, 0)}")
            if fix:
                session.rows(
                    "update route set waiting = ? where id = ?", (waiting.get(route_id, 0), route_id)
                )
    return wrong
