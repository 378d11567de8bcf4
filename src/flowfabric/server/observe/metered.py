"""A store that counts what passes through it; whoever uses it, server or engine, is counted alike."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from flowfabric.model.command import Command, Question
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.claim import Claim, Claimed
from flowfabric.model.operations.finish import Cancel, Complete, Fail, TerminalFailed
from flowfabric.model.operations.lease import Renew
from flowfabric.model.operations.timer import ExpireExecution, ReadDue, Swept
from flowfabric.storage.base import RepairReport, Upkeep

if TYPE_CHECKING:
    from flowfabric.server.observe.metrics import ServerMetrics

R = TypeVar("R")
COUNTED: Final = frozenset((Cancel, Claim, Complete, ExpireExecution, Fail, Renew))

PASSES: Final = frozenset((ReadDue,))


class Metered:
    """Wraps a store. What is not counted goes through untouched."""

    def __init__(self, store: Upkeep, metrics: ServerMetrics) -> None:
        self._store = store
        self._metrics = metrics

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def apply(self, command: Command[R]) -> R:
        """Decide one command."""
        if type(command) not in COUNTED:
            return await self._store.apply(command)
        begin = time.perf_counter()
        try:
            reply = await self._store.apply(command)
        except FlowFabricError as error:
            await self._count(command, error, time.perf_counter() - begin)
            raise
        await self._count(command, reply, time.perf_counter() - begin)
        return reply

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Decide several commands."""
        begin = time.perf_counter()
        replies = await self._store.apply_many(commands)
        seconds = time.perf_counter() - begin
        for command, reply in zip(commands, replies, strict=True):
            if type(command) in COUNTED:
                await self._count(command, reply, seconds)
        return replies

    async def read(self, question: Question[R]) -> R:
        """Answer a question; the engine's look at what is due is one of its passes."""
        if type(question) not in PASSES:
            return await self._store.read(question)
        begin = time.perf_counter()
        try:
            return await self._store.read(question)
        finally:
            self._metrics.passed("timers", time.perf_counter() - begin)

    async def collect(self, limit: int = 1000) -> int:
        """Delete what has expired."""
        begin = time.perf_counter()
        gone = await self._store.collect(limit)
        self._metrics.passed("retention_trimmer", time.perf_counter() - begin)
        return gone

    async def repair(self, *, fix: bool = True) -> RepairReport:
        """Compare records and indexes."""
        begin = time.perf_counter()
        report = await self._store.repair(fix=fix)
        self._metrics.passed("index_reconciler", time.perf_counter() - begin)
        return report

    async def _count(self, command: Command[Any], reply: object, seconds: float) -> None:
        failed = isinstance(reply, FlowFabricError)
        if isinstance(command, Claim):
            self._metrics.claimed(command.lanes, seconds)
            if isinstance(reply, Claimed):
                for task in reply.tasks:
                    self._metrics.remember(task.execution_id, task.lane_id)
        elif isinstance(command, Renew):
            self._metrics.renewed(ok=not failed)
        elif not failed:
            outcome = _outcome(command, reply)
            if outcome:
                assert isinstance(command, Complete | Fail | Cancel | ExpireExecution)
                await self._metrics.ended(self._store, command.execution_id, outcome)


def _outcome(command: Command[Any], reply: object) -> str:
    if isinstance(command, Complete):
        return "ok"
    if isinstance(command, Cancel):
        return "cancelled"
    if isinstance(command, Fail):
        return "error" if isinstance(reply, TerminalFailed) else "retry"
    fired = isinstance(reply, Swept) and reply.outcome in {"expired", "retry_scheduled"}
    return "timeout" if fired else ""


def metered(store: Upkeep, metrics: ServerMetrics) -> Upkeep:
    """Count what passes through a store."""
    return cast("Upkeep", Metered(store, metrics))
