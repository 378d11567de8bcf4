"""Looking at what a store holds: is all there that was acknowledged, and does it fit?

A file is read with nothing but SQLite and the codec; any other store by its dump, which runs no step of the engine.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flowfabric.model.ids import entry_id
from flowfabric.model.records import Event, Execution
from flowfabric.storage.base import Dump
from flowfabric.storage.sql.codec import decode

CLAIMS = frozenset({"claimed", "resumed_claim", "reclaimed"})
OWNED = (
    "payload",
    "result",
    "attempt",
    "history",
    "tag",
    "suspension",
    "waitpoint",
    "signal",
    "stream",
    "frame",
    "summary",
    "step",
)
Fact = dict[str, Any]


class Contents:
    """One moment of a store, and what must be true of it."""

    damage: list[str]
    orphans: list[str]
    runs: dict[str, Execution]
    sizes: dict[str, int]
    history: dict[str, list[Event]]
    results: dict[tuple[str, int], bytes]
    steps: dict[tuple[str, str], bytes]
    frames: dict[tuple[str, int, str], bytes]
    signals: set[tuple[str, str, str]]

    def check(self, facts: Iterable[Fact]) -> None:
        """Refuse a database that lacks something acknowledged, or does not fit together."""
        assert not self.damage, self.damage
        assert not self.orphans, self.orphans
        for execution_id, run in self.runs.items():
            self._fits(execution_id, run)
        completed: Counter[str] = Counter()
        for fact in facts:
            if fact["fact"] != "ready":
                assert self._kept(fact), f"acknowledged, but not there: {fact}"
            completed[fact.get("id", "")] += fact["fact"] == "complete"
        assert not [run for run, times in completed.items() if times > 1], "acknowledged as completed twice"
        said = Counter((run, payload) for (run, _, _), payload in self.frames.items())
        assert not [frame for frame, times in said.items() if times > 1], "appended twice"

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


class Checker(Contents):
    """One moment of a file."""

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
        names = dict(db.execute("select execution_key, id from execution"))
        keys = "select execution_key from execution"
        self.orphans = [
            table
            for table in OWNED
            if db.execute(f"select 1 from {table} where execution_key not in ({keys}) limit 1").fetchone()
        ]
        self.runs = {
            key: decode("execution", record) for key, record in db.execute("select id, record from execution")
        }
        self.sizes = {
            names[key]: size for key, size in db.execute("select execution_key, length(input) from payload")
        }
        self.history = {}
        for key, record in db.execute("select execution_key, record from history order by position"):
            self.history.setdefault(names[key], []).append(decode("history", record))
        self.results = {
            (names[key], attempt): decode("result", record).data
            for key, attempt, record in db.execute("select execution_key, attempt, record from result")
        }
        self.steps = {
            (names[key], name): decode("step", record).result
            for key, name, record in db.execute("select execution_key, name, record from step")
        }
        self.frames = {
            (names[key], attempt, entry_id(ms, seq)): decode("frame", record).payload
            for key, attempt, ms, seq, record in db.execute(
                "select execution_key, attempt, ms, seq, record from frame"
            )
        }
        self.signals = {
            (names[key], waitpoint, decode("signal", record).signal_id)
            for key, waitpoint, record in db.execute("select execution_key, waitpoint, record from signal")
        }


class DumpChecker(Contents):
    """One moment of any store."""

    def __init__(self, dump: Dump) -> None:
        records = dump.records
        self.runs = {key[0]: run for key, run in records.get("execution", {}).items()}
        self.damage = [f"nobody's line of history: {line}" for line in records.get("past", {}).values()]
        states = Counter((run.lane_id, run.namespace, str(run.public_state)) for run in self.runs.values())
        if states != dump.counts:
            self.damage.append(f"counted {dump.counts}, there are {states}")
        self.orphans = [
            f"{kind} {key}" for kind in OWNED for key in records.get(kind, {}) if key[0] not in self.runs
        ] + [f"frames {key}" for key in dump.frames if key[0] not in self.runs]
        self.sizes = {key[0]: len(payload.input) for key, payload in records.get("payload", {}).items()}
        self.history = {id_: list(lines) for id_, lines in dump.history.items()}
        self.results = {(id_, n): result.data for (id_, n), result in records.get("result", {}).items()}
        self.steps = {(id_, name): step.result for (id_, name), step in records.get("step", {}).items()}
        self.frames = {
            (id_, attempt, entry_id(frame.ms, frame.seq)): frame.payload
            for (id_, attempt), frames in dump.frames.items()
            for frame in frames
        }
        self.signals = {
            (key[0], key[1], signal.signal_id) for key, signal in records.get("signal", {}).items()
        }


EVENTS = {
    "claim": CLAIMS,
    "complete": {"completed"},
    "fail": {"retry_scheduled", "failed"},
    "suspend": {"suspended"},
    "release": {"released"},
}
