"""Run scenario 1 of every peer and of ours in turn, with the same kind of server, slots and processes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import s1
from bench.measures import median
from bench.peers.catalogue import PEERS
from bench.peers.drive import Drained, Failed, once
from bench.peers.environments import NotInstalled, environment, version
from bench.places import fresh
from bench.settings import Report, Settings
from bench.work import run_loop

OURS = {"flowfabric": False, "bare ceiling": True}


class Contender:
    """One row of the table, with the results of all runs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.setup = ""
        self.note = ""
        self.found: list[Drained] = []
        self._commands: Path | None = None

    def prepare(self) -> None:
        """Install the peer; note it in the row if that fails."""
        if self.name in OURS:
            self.setup = "every slot claims and completes one task at a time"
            return
        peer = PEERS[self.name]
        self.setup = peer.setup
        try:
            self._commands = environment(self.name, peer)
            self.setup = f"{version(self.name, self._commands)}: {peer.setup}"
        except NotInstalled as error:
            self.note = f"not installed: {error}"

    def run(self, settings: Settings) -> None:
        """Run once more, unless an earlier run failed."""
        if self.note:
            return
        if self._commands is None:
            self.found.append(ours(settings, bare=OURS[self.name]))
            return
        try:
            self.found.append(once(self.name, PEERS[self.name], self._commands, settings))
        except Failed as error:
            self.note = str(error)

    def row(self, settings: Settings) -> dict[str, Any]:
        """Return the medians of all runs."""
        row: dict[str, Any] = {
            "system": self.name,
            "submit_per_s": "",
            "drain_per_s": "",
            "end_to_end_per_s": "",
        }
        if self.found:
            tasks = settings.tasks
            row["submit_per_s"] = round(median([tasks / each.submit for each in self.found]))
            row["drain_per_s"] = round(median([tasks / each.drain for each in self.found]))
            row["end_to_end_per_s"] = round(median([tasks / sum(each) for each in self.found]))
        return {**row, "runs": len(self.found), "setup": self.setup, "note": self.note}


def ours(settings: Settings, *, bare: bool) -> Drained:
    with fresh(settings) as place:
        found, _ = run_loop(s1.once(place, settings, bare=bare, idle_rounds=0))
    return Drained(found.submit.seconds, found.drain.seconds)


def run(settings: Settings, names: Sequence[str] = ()) -> Report:
    """Run all contenders in every round, so that changes of the machine's speed affect all of them."""
    contenders = [Contender(name) for name in (*OURS, *(names or PEERS))]
    for contender in contenders:
        contender.prepare()
    for _ in range(settings.runs):
        for contender in contenders:
            contender.run(settings)
    rows = [contender.row(settings) for contender in contenders]
    return {**standing(rows), "rows": rows}


def standing(rows: Sequence[dict[str, Any]]) -> Report:
    """Return our drain rate relative to the best peer."""
    peers = [row for row in rows if row["system"] not in OURS and row["drain_per_s"]]
    if not peers:
        return {"best_peer": "", "ahead": 0.0}
    best = max(peers, key=lambda row: int(row["drain_per_s"]))
    (own,) = (row for row in rows if row["system"] == "flowfabric")
    return {"best_peer": best["system"], "ahead": round(own["drain_per_s"] / best["drain_per_s"], 2)}
