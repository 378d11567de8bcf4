"""The store of a lab, observed for changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from flowfabric.model.command import Command, Question
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.ids import Partitions
from flowfabric.model.operations.lease import Renew
from flowfabric.storage.base import StoreTraits, Subscription, Upkeep

R = TypeVar("R")


class ChangeSignal:
    """Counts changes, and wakes those that wait for the next one."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Report a change."""
        self.count += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def after(self, count: int) -> None:
        """Wait for a change after the one with this number."""
        while self.count == count:
            await self._changed.wait()


class ObservedStore:
    """The store of a lab as the program under test sees it; every command is reported as a change."""

    def __init__(self, store: Upkeep, changes: ChangeSignal) -> None:
        self._store = store
        self._changes = changes

    @property
    def partitions(self) -> Partitions:
        """How ids are spread."""
        return self._store.partitions

    @property
    def traits(self) -> StoreTraits:
        """What the store can do. The lab runs the engine."""
        return StoreTraits(is_direct=False)

    def now(self) -> int:
        """Return the time of the lab."""
        return self._store.now()

    async def apply(self, command: Command[R]) -> R:
        """Decide one command."""
        try:
            return await self._store.apply(command)
        finally:
            self._changes.notify()

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Decide several commands."""
        try:
            return await self._store.apply_many(commands)
        finally:
            if not all(isinstance(command, Renew) for command in commands):
                self._changes.notify()

    async def read(self, question: Question[R]) -> R:
        """Answer a question."""
        return await self._store.read(question)

    def subscribe(self, topics: Iterable[str]) -> AbstractAsyncContextManager[Subscription]:
        """Listen to topics."""
        return self._store.subscribe(topics)

    async def close(self) -> None:
        """Do nothing: the lab closes the store."""
