"""Groups: commands of one group come at the same moment, so a store may decide them in any one order."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from flowfabric.model.contracts.reads import (
    PAGE_MAX,
    ExecutionPage,
    FeedPage,
    InboxPage,
    ListExecutions,
    ReadFeed,
    ReadInbox,
)
from flowfabric.storage.base import Dump, Upkeep
from flowfabric.storage.memory import MemoryStore
from support.simulation.actions import Many
from support.simulation.compare import facts
from support.simulation.fleet import Lot


class Outcome(NamedTuple):
    """What a store holds, and in which order it was written."""

    dump: Dump
    feed: FeedPage
    runs: ExecutionPage
    inbox: InboxPage


async def outcome_of(store: Upkeep) -> Outcome:
    """Look at everything that the order of a group may show in."""
    return Outcome(
        await store.dump(),
        await store.read(ReadFeed(limit=PAGE_MAX)),
        await store.read(ListExecutions(limit=PAGE_MAX)),
        await store.read(ReadInbox(limit=PAGE_MAX)),
    )


async def in_some_order(store: Upkeep, group: Many, wanted: Sequence[Any], outcome: Outcome) -> list[Any]:
    """Decide a group on the bare machine in an order that gives the wanted replies and leaves the wanted outcome.

    Without such an order it is decided as it stands, and the difference is seen.
    """
    assert isinstance(store, MemoryStore)
    aim = [facts(reply) for reply in wanted]
    start = fork(store)
    lot = Lot()
    lot.begin(group.lot)
    trial = fork(start)
    trial._chance = lot
    replies = await trial.apply_many(group.commands)
    as_it_stands = trial
    if [facts(reply) for reply in replies] == aim and await outcome_of(trial) == outcome:
        store.tables = trial.tables
        return replies
    chances = _chances(store, group)
    for order in itertools.permutations(range(len(group.commands))):
        trial = fork(start)
        if await _matches(trial, group, order, chances, aim) and await outcome_of(trial) == outcome:
            store.tables = trial.tables
            return list(wanted)
    store.tables = as_it_stands.tables
    return replies


async def _matches(
    trial: MemoryStore, group: Many, order: Sequence[int], chances: Sequence[float], aim: Sequence[Any]
) -> bool:
    for place in order:
        trial._chance = lambda drawn=chances[place]: drawn  # type: ignore[misc]
        (reply,) = await trial.apply_many((group.commands[place],))
        if facts(reply) != aim[place]:
            return False
    return True


def _chances(store: MemoryStore, group: Many) -> list[float]:
    """What each command of the group draws; one that is refused before it is decided draws nothing."""
    lot = Lot()
    lot.begin(group.lot)
    return [0.0 if store._refusal(command) else lot() for command in group.commands]


def fork(store: MemoryStore) -> MemoryStore:
    """Copy a store; records are frozen and shared."""
    twin = MemoryStore(clock=store._clock, partitions=store.partitions)
    old, new = store.tables, twin.tables
    new.records = defaultdict(dict, {kind: dict(rows) for kind, rows in old.records.items()})
    new.order = dict(old.order)
    new.arrivals = old.arrivals
    new.lanes = set(old.lanes)
    new.feed = list(old.feed)
    new.feed_position = old.feed_position
    new.frames = defaultdict(list, {key: list(rows) for key, rows in old.frames.items()})
    new.waitpoint_order = dict(old.waitpoint_order)
    new.waitpoint_count = old.waitpoint_count
    return twin
