"""Every row of the transition table: what it must leave alone, and what follows the end of an execution."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import astuple

from flowfabric.model.errors import InternalError
from flowfabric.model.machine import followers
from flowfabric.model.machine.workspace import Workspace
from flowfabric.model.record_kinds import EXECUTION, LANE
from flowfabric.model.records import VERSION, Execution, Lane
from flowfabric.model.state import Phase
from flowfabric.model.transitions import TRANSITIONS, UNCHANGING
from support.clock import ManualClock
from support.driver import Driver
from support.paths import PATHS
from support.stores import STORES, half

ENDINGS = sorted(row.number for row in TRANSITIONS if row.to.phase is Phase.TERMINAL)
AFTER_AN_END = {"T26"}
"""Rows that only an ended execution reaches."""


@pytest.fixture(params=["memory", "sqlite"])
async def ff(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Driver]:
    """A store whose every step is decided in Python."""
    clock = ManualClock()
    async with STORES[request.param](tmp_path, clock, half) as store:
        yield Driver(store, clock)


@pytest.mark.parametrize("row", sorted(PATHS))
async def test_no_row_changes_what_an_execution_is(
    ff: Driver, row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, set[tuple[object, ...]]] = {}
    keep = Workspace.keep

    def watched(space: Workspace) -> None:
        keep(space)
        for (kind, _), _, run in space.changes():
            if kind == EXECUTION and run is not None:
                fixed = tuple(repr(getattr(run, name)) for name in UNCHANGING)
                seen.setdefault(run.execution_id, set()).add(fixed)

    monkeypatch.setattr(Workspace, "keep", watched)
    execution_id = await PATHS[row][0](ff)
    assert len(seen[execution_id]) == 1


def count_end(space: Workspace, ended: Execution) -> None:
    """Follow an ending: count it in a record."""
    assert astuple(space.execution(ended.execution_id)) == astuple(ended)
    assert ended.lifecycle_phase is Phase.TERMINAL
    known = space.get(LANE, "ends")
    count = 1 if known is None else known.paused_at + 1
    space.put(LANE, "ends", value=Lane(VERSION, "ends", count))


@pytest.mark.parametrize("row", sorted(PATHS))
async def test_followers_run_once_for_every_end(
    ff: Driver, row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "FOLLOWERS", [count_end])
    await PATHS[row][0](ff)
    counted = (await ff.store.dump()).records.get("lane", {}).get(("ends",))
    assert (counted.paused_at if counted else 0) == int(row in ENDINGS or row in AFTER_AN_END)


@pytest.mark.parametrize("row", ENDINGS)
async def test_an_end_is_not_saved_without_what_follows(
    ff: Driver, row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(space: Workspace, ended: Execution) -> None:
        space.put(LANE, "ends", value=Lane(VERSION, "ends", 1))
        raise ZeroDivisionError(ended.execution_id)

    monkeypatch.setattr(followers, "FOLLOWERS", [broken])
    with pytest.raises(InternalError, match="ZeroDivisionError"):
        await PATHS[row][0](ff)
    dump = await ff.store.dump()
    assert ("ends",) not in dump.records.get("lane", {})
    assert {run.lifecycle_phase for run in dump.records["execution"].values()} <= set(Phase) - {
        Phase.TERMINAL
    }
