"""The bare machine: no files, no threads, everything in plain sight."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from flowfabric.model.command import Command, Question
from flowfabric.model.ids import Partitions
from flowfabric.model.machine.group import run_group
from flowfabric.model.machine.workspace import Workspace
from flowfabric.storage.base import Clock, Dump, RepairReport
from flowfabric.storage.memory.tables import Tables
from flowfabric.storage.store_base import StoreBase
from flowfabric.storage.wake import topics_of


class MemoryStore(StoreBase):
    """A store for tests and comparisons; it forgets everything when it goes."""

    def __init__(
        self,
        *,
        clock: Clock = lambda: time.time_ns() // 1_000_000,
        partitions: Partitions | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(clock, partitions or Partitions())
        self.tables = Tables()
        self._chance = chance
        self._leader_leases: dict[str, tuple[str, int]] = {}

    async def _decide(self, commands: Sequence[Command[Any]]) -> list[Any]:
        now = self.now()
        return [self._step(command, now) for command in commands]

    async def _ask(self, question: Question[Any]) -> Any:
        return self._run(question, self.now())[1]

    def _step(self, command: Command[Any], now: int) -> Any:
        space, reply = self._run(command, now)
        self.tables.save(space)
        self.hub.publish(*topics_of(space))
        return reply

    def _run(self, command: Command[Any], now: int) -> tuple[Workspace, Any]:
        """Decide one command alone: what groups of commands are compared with."""
        space = Workspace(now)
        group = run_group(space, (command,), (self._chance(),))
        try:
            while True:
                self.tables.load(space, next(group))
        except StopIteration as done:
            return space, done.value[0]

    async def acquire_leader_lease(self, name: str, holder: str, ttl_ms: int) -> bool:
        """Acquire or extend a leader lease; return False if another holder has it."""
        owner, until = self._leader_leases.get(name, ("", 0))
        if owner not in {"", holder} and until > self.now():
            return False
        self._leader_leases[name] = (holder, self.now() + ttl_ms)
        return True

    async def release_leader_lease(self, name: str, holder: str) -> None:
        """End a leader lease, so that another process can acquire it at once."""
        if self._leader_leases.get(name, ("", 0))[0] == holder:
            del self._leader_leases[name]

    async def collect(self, limit: int = 1000) -> int:
        """Delete what has expired and is never read again."""
        return self.tables.collect(self.now(), limit)

    async def repair(self, *, fix: bool = True) -> RepairReport:
        """There is nothing to compare: every index answer is computed from the records."""
        return RepairReport(len(self.tables.order), (), fix)

    async def dump(self) -> Dump:
        """Return everything."""
        return self.tables.dump()

    async def close(self) -> None:
        """Let everything go."""
