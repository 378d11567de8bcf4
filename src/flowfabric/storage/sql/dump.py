"""Read everything that a SQL store holds, in the form that all stores share."""

from __future__ import annotations

from typing import Any, Final

from flowfabric.model.indexes import Placement, placement
from flowfabric.model.records import Payload
from flowfabric.model.state import Public
from flowfabric.storage.base import Dump
from flowfabric.storage.sql.codec import decode
from flowfabric.storage.sql.load import SEPARATOR, past_entry
from flowfabric.storage.sql.requests import Ask, Plan, Row, Transaction

_KEYED: Final = (
    "execution",
    "result",
    "attempt",
    "suspension",
    "waitpoint",
    "signal",
    "stream",
    "summary",
    "step",
    "lane",
    "worker",
    "token",
    "keyring",
    "kind",
    "kind_names",
    "kind_namespaces",
)
"""Records whose rows are the parts of their keys and the record."""


def dump() -> Transaction[Dump]:
    """Read everything in one transaction."""
    return Transaction(_dump(), writes=False)


def _dump() -> Plan[Dump]:
    records: dict[str, dict[Row, Any]] = {}
    for kind in _KEYED:
        rows = yield Ask(f"dump {kind}", ())
        records[kind] = {tuple(key): decode(kind, record) for *key, record in rows}
    rows = yield Ask("dump payload", ())
    records["payload"] = {(id_,): Payload(data, policy) for id_, data, policy in rows}
    rows = yield Ask("dump memo", ())
    records["memo"] = {_memo_key(key): decode("memo", record) for key, record in rows}
    rows = yield Ask("dump past", ())
    records["past"] = {row[:1]: past_entry(*row) for row in rows}
    history = yield from _lines("history")
    frames = yield from _lines("frame")
    indexes = yield Ask("dump indexes", ())
    counts = yield Ask("dump counts", ())
    return Dump(
        records={kind: held for kind, held in records.items() if held},
        indexes={row[0]: {"placement": _placement(*row[1:])} for row in indexes},
        history={id_: lines for (id_,), lines in history.items()},
        frames={(id_, attempt): lines for (id_, attempt), lines in frames.items()},
        counts={(lane, namespace, state): count for lane, namespace, state, count in counts},
    )


def _lines(kind: str) -> Plan[dict[Row, tuple[Any, ...]]]:
    """Read rows that belong together and have an order."""
    lines: dict[Row, list[Any]] = {}
    for *key, record in (yield Ask(f"dump {kind}", ())):
        lines.setdefault(tuple(key), []).append(decode(kind, record))
    return {key: tuple(found) for key, found in lines.items()}


def _memo_key(text: str) -> tuple[str, ...]:
    """Split the key of an idempotency record: the first part says how many there are; the last may hold anything."""
    return tuple(text.split(SEPARATOR, 3 if text.startswith(f"signal{SEPARATOR}") else 2))


def _placement(
    lane: str,
    state: str,
    claim_score: int | None,
    due: int | None,
    holder: str | None,
    claim_id: str | None,
    record: bytes,
) -> Placement:
    """Rebuild the placement of an execution from its index columns alone."""
    score = placement(decode("execution", record)).score if claim_score is None else claim_score
    return Placement(
        claim_score is not None, score, lane, Public(state), due or 0, holder or "", claim_id or ""
    )
