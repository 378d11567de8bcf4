"""Looking at a file with nothing but SQLite and the codec: is all there that was acknowledged, and does it fit?"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flowfabric.model.ids import entry_id
from flowfabric.model.records import Event, Execution
from flowfabric.storage.sql.codec import decode

CLAIMS = frozenset({"claimed", "resumed_claim", "reclaimed"})
OWNED = (
    "payload", "result", "attempt", "history", "tag", "suspension", "waitpoint", "signal", "stream", "frame",
    "summary", "step",
)  # fmt: skip
Fact = dict[str, Any]


class Checker:
    """One moment of a database, and what must be true of it."""

    def __init__(self, path: Path) -> None:
        db = sqlite3.connect(path, isolation_level=None)
        try:
            db.execute("pragma query_only = on")
            db.execute("begin")
            self.damage = [row[0] for row in db.execute("pragma quick_check") if row[0] != "ok"]
            self._load(db)
        finally:
            db.close()

    def _load(self, db: sqlite3.Connection) -> None:
        names = dict(db.execute("select k, id from execution"))
        self.orphans = [
            table for table in OWNED
            if db.execute(f"select 1 from {table} where k not in (select k from execution) limit 1").fetchone()
        ]  # fmt: skip
        self.runs: dict[str, Execution] = {
            key: decode("execution", rec) for key, rec in db.execute("select id, rec from execution")
        }
        self.sizes = {names[k]: size for k, size in db.execute("select k, length(input) from payload")}
        self.history: dict[str, list[Event]] = {}
        for k, rec in db.execute("select k, rec from history order by pos"):
            self.history.setdefault(names[k], []).append(decode("history", rec))
        self.results = {
            (names[k], attempt): decode("result", rec).data
            for k, attempt, rec in db.execute("select k, attempt, rec from result")
        }
        self.steps = {
            (names[k], name): decode("step", rec).result
            for k, name, rec in db.execute("select k, name, rec from step")
        }
        self.frames = {
            (names[k], attempt, entry_id(ms, seq)): decode("frame", rec).payload
            for k, attempt, ms, seq, rec in db.execute("select k, attempt, ms, seq, rec from frame")
        }
        self.signals = {
            (names[k], waitpoint, decode("signal", rec).signal_id)
            for k, waitpoint, rec in db.execute("select k, waitpoint, rec from signal")
        }

    def check(self, facts: Iterable[Fact]) -> None:
        """Refuse a database that lacks something acknowledged, or does not fit together."""
        assert not self.damage
        assert not self.orphans
        for execution_id, run in self.runs.items():
            self._fits(execution_id, run)
        completed: Counter[str] = Counter()
        for fact in facts:
            if fact["fact"] != "ready":
                assert self._kept(fact), f"acknowledged, but not there: {fact}"
            completed[fact.get("id", "")] += fact["fact"] == "complete"
        assert not [run for run, times in completed.items() if times > 1], "acknowledged as completed twice"

    def _fits(self, execution_id: str, run: Execution) -> None:
        lines = self.history[execution_id]
        assert [line.seq for line in lines] == list(range(1, run.event_count + 1)), "history is dense"
        state, epoch = "", 0
        for line in lines:
            assert line.from_state == state, (execution_id, line)
            assert line.lease_epoch == epoch + (line.event in CLAIMS), (execution_id, line)
            state, epoch = line.to_state, line.lease_epoch
        assert (state, epoch) == (run.public_state, run.current_lease_epoch), execution_id
        assert sum(line.event == "completed" for line in lines) <= 1, "completed once"

    def _kept(self, fact: Fact) -> bool:
        execution_id = fact["id"]
        kind = fact["fact"]
        if execution_id not in self.runs:
            return False
        if kind == "submit":
            return bool(self.sizes[execution_id] == fact["size"])
        if kind == "frame":
            payload = self.frames.get((execution_id, fact["attempt"], fact["entry"]))
            return payload == bytes.fromhex(fact["payload"])
        if kind == "step":
            return self.steps.get((execution_id, fact["name"])) == bytes.fromhex(fact["result"])
        if kind == "signal":
            return (execution_id, fact["waitpoint"], fact["signal"]) in self.signals
        if kind == "complete" and self.results.get((execution_id, fact["attempt"])) != bytes.fromhex(
            fact["result"]
        ):
            return False
        return any(
            line.event in EVENTS[kind] and line.lease_epoch == fact["epoch"]
            for line in self.history[execution_id]
        )


EVENTS = {
    "claim": CLAIMS,
    "complete": {"completed"},
    "fail": {"retry_scheduled", "failed"},
    "suspend": {"suspended"},
    "release": {"released"},
}
