"""What a transaction changes, it has locked: proven for every command, for dialects that have row locks.

SQLite ignores locks. These tests record the requests of each command's transaction and compare what is written with
what the statements before it declare to lock.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from flowfabric.model.command import Command
from flowfabric.model.errors import FlowFabricError
from flowfabric.storage.sql.requests import Ask, Fetch, Gather, Request, Write
from flowfabric.storage.sql.statements import OWNED, STATEMENTS, Lock
from flowfabric.storage.sql.unit import Unit
from flowfabric.storage.sqlite import SqliteStore
from support.clock import ManualClock
from support.simulation import Fleet, Simulation
from support.simulation.fleet import Lot
from support.simulation.scenarios import scenarios, writing_kinds

COUNTERS = {"tally", "total", "route"}
"""Tables whose rows are only incremented."""
FOLLOWERS = {"serving": "worker", "past": "execution", "counter": ""}
"""Tables that are written under the lock of another one, or by one statement alone."""
Recorded = list[tuple[Request, Any]]


def table_of(name: str) -> str:
    found = re.search(r"(?:into|update|delete from|from) (\w+)", STATEMENTS[name].sql)
    assert found
    return found[1]


class Held:
    """The locks of one transaction, and what it finds out."""

    def __init__(self) -> None:
        self.executions: set[int] = set()
        """Keys of executions that are locked or were inserted."""
        self.ids: set[str] = set()
        self.keys: dict[str, set[tuple[Any, ...]]] = {}
        self.tables: set[str] = set()

    def note(self, request: Request, answer: Any) -> None:
        lock = STATEMENTS[request.name].locks
        if isinstance(request, Ask) and request.parameters[1:] == ("execution",):
            count, last = request.parameters[0], answer[0][0]
            self.executions.update(range(last - count + 1, last + 1))
        if lock is Lock.NONE:
            return
        table = table_of(request.name)
        if lock is Lock.TABLE:
            self.tables.add(table)
        elif table != "execution":
            assert isinstance(request, Fetch)
            self.keys.setdefault(table, set()).update(request.keys)
        else:
            if isinstance(request, Gather):
                self.ids.update(request.values)
            rows = answer if isinstance(request, Gather) else [row for rows in answer for row in rows]
            self.ids.update(row[0] for row in rows)
            self.executions.update(row[1] for row in rows)

    def check_read(self, request: Request) -> None:
        """What belongs to an execution is read under its lock."""
        owned = table_of(request.name) in {*OWNED, "execution"}
        if isinstance(request, Fetch) and owned and STATEMENTS[request.name].parameters[:1] == ("id",):
            assert {key[0] for key in request.keys} <= self.ids, request

    def check_write(self, request: Write) -> None:
        statement, table = STATEMENTS[request.name], table_of(request.name)
        assert statement.writes, request.name
        if "execution_key" in statement.parameters:
            place = statement.parameters.index("execution_key")
            assert {row[place] for row in request.rows} <= self.executions, request
        elif table in COUNTERS:
            keys = [row[1:] if request.name == "add waiting" else row for row in request.rows]
            assert keys == sorted(keys), request
        elif table in FOLLOWERS:
            assert not FOLLOWERS[table] or self.keys.get(FOLLOWERS[table]), request
        elif table not in self.tables:
            read = STATEMENTS[table].parameters
            places = [statement.parameters.index(name) for name in read]
            assert {tuple(row[place] for place in places) for row in request.rows} <= self.keys[table], (
                request
            )


@pytest.fixture
async def fleet(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fleet]:
    """One store that remembers nothing between its groups, as one of many writers."""
    clock, lot = ManualClock(), Lot()
    store = await SqliteStore.open(":memory:", clock=clock, chance=lot)
    monkeypatch.setattr(store._writer, "_unit", Unit())
    fleet = Fleet(("sqlite-memory",), (store,), clock)
    fleet.lots = [lot]
    yield fleet
    await store.close()


def recorded(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    session = store._writer.session
    answer: Callable[[Request], Any] = session._answer
    requests: Recorded = []

    def record(request: Request) -> Any:
        requests.append((request, answer(request)))
        return requests[-1][1]

    monkeypatch.setattr(session, "_answer", record)
    return requests


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", writing_kinds(), ids=lambda kind: kind.__name__)
async def test_what_a_command_changes_is_locked(
    fleet: Fleet, kind: type[Command[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = (await scenarios())[kind]
    await Simulation(0, fleet, every=10_000).repeat(scenario.path)
    (store,) = fleet.stores
    assert isinstance(store, SqliteStore)
    requests = recorded(store, monkeypatch)
    fleet.begin(scenario.action.lot)
    (reply,) = await store.apply_many((scenario.action.command,))
    assert not isinstance(reply, FlowFabricError)
    held = Held()
    for request, answer in requests:
        if isinstance(request, Write):
            held.check_write(request)
        else:
            held.check_read(request)
            held.note(request, answer)
    assert any(isinstance(request, Write) for request, _ in requests)


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_a_statement_says_what_it_takes_and_does(name: str) -> None:
    statement = STATEMENTS[name]
    assert statement.sql.count("?") == len(statement.parameters)
    assert statement.purpose.endswith(".")
    assert not (statement.writes and statement.locks), "a statement that writes locks its rows anyway"
