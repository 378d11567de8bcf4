"""What happens by itself: one loop over one index of what is due next.

Every process may run it, and the one that holds the leader lease does. It sleeps until the next due time, is woken when
something falls due earlier, and looks once a second anyway.
"""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from typing import Any, Final

from flowfabric.model.command import Command, ReadRequest
from flowfabric.model.errors import FlowFabricError, Infrastructure, StoreClosed
from flowfabric.model.indexes import DueEntry
from flowfabric.model.operations.timer import ReadDue, due_commands
from flowfabric.storage.base import Subscription, Upkeep

LEADER_LEASE: Final = "timers"
LEADER_LEASE_MS: Final = 1_000
LEADER_LEASE_SECONDS: Final = 0.6
"""How often the holder takes the leader lease anew: early enough to keep it."""
SWEEP_SECONDS: Final = 1.0
PAGE: Final = 200
SKIP_MS: Final = 30_000
"""How long a record whose step keeps failing is left alone, so that it does not block the others."""

log = logging.getLogger("flowfabric.engine")


class Timers:
    """Fires what is due."""

    def __init__(self, store: Upkeep, *, holder: str = "") -> None:
        self._store = store
        self.holder = holder or f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._skipped: dict[ReadRequest, int] = {}
        self._swept = float("-inf")

    async def fire_due(self) -> int:
        """Do everything whose time has come, and return how many steps that took."""
        fired = 0
        while True:
            count, more = await self._fire_page()
            fired += count
            if not more:
                return fired

    async def _fire_page(self) -> tuple[int, bool]:
        now = self._store.now()
        # Forgotten before the look: what is written during it, and falls due earlier, is then not overlooked.
        self._store.expect_due(0)
        page = await self._store.read(ReadDue(before=now, limit=PAGE + len(self._skipped)))
        self._skipped = {key: until for key, until in self._skipped.items() if until > now}
        entries = [entry for entry in page.entries if (entry.kind, entry.key) not in self._skipped]
        commands = [(entry, command) for entry in entries for command in due_commands(entry, now)]
        if commands:
            await self._apply(commands, now)
        if page.next_due_at:
            self._store.expect_due(page.next_due_at)
        return len(commands), bool(commands)

    async def _apply(self, due: list[tuple[DueEntry, Command[Any]]], now: int) -> None:
        replies = await self._store.apply_many([command for _, command in due])
        for (entry, command), reply in zip(due, replies, strict=True):
            if isinstance(reply, Infrastructure) and reply.retryable:
                raise reply  # it is the store's failure: all are tried again when it is back
            if isinstance(reply, FlowFabricError):
                name = ":".join(map(str, entry.key))
                log.error("%s of %s failed: %s", type(command).__name__, name, reply)
                self._skipped[entry.kind, entry.key] = now + SKIP_MS

    async def run(self) -> None:
        """Fire what is due, for ever; a store that fails is tried again."""
        while True:
            try:
                async with self._store.subscribe(["due"]) as woken:
                    while True:
                        await self._turn(woken)
            except StoreClosed:
                return
            except FlowFabricError as error:
                log.warning("timers pause: %s", error)
                await asyncio.sleep(SWEEP_SECONDS)

    async def _turn(self, woken: Subscription) -> None:
        if not await self._store.acquire_leader_lease(LEADER_LEASE, self.holder, LEADER_LEASE_MS):
            await asyncio.sleep(SWEEP_SECONDS)
            return
        loop = asyncio.get_running_loop()
        keep_until = loop.time() + LEADER_LEASE_SECONDS
        while (left := keep_until - loop.time()) > 0:
            ahead = (self._store.next_due() - self._store.now()) / 1000
            if ahead <= 0 or loop.time() - self._swept >= SWEEP_SECONDS:
                await self.fire_due()
                self._swept = loop.time()
                ahead = (self._store.next_due() - self._store.now()) / 1000
            await woken.wait(max(0.0, min(left, ahead)))

    async def stop(self) -> None:
        """Give the leader lease back, so that another process takes over at once."""
        await self._store.release_leader_lease(LEADER_LEASE, self.holder)
