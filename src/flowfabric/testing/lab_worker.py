"""The workers of a lab: real ones, that are told when to look for work, and whose handlers can be struck."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, TypeVar

from flowfabric.app import FlowFabric
from flowfabric.model.contracts.reads import ListLeases
from flowfabric.storage.base import Upkeep
from flowfabric.testing.step_timers import LabTimer
from flowfabric.testing.worker_store import ChangeSignal, Crash, RunningHandlers, WorkerStore
from flowfabric.worker import Handler, Runtime
from flowfabric.worker.context.hooks import ContextHooks
from flowfabric.worker.steps.policy import StepTimer

R = TypeVar("R")


class LabWorker:
    """One worker."""

    def __init__(
        self,
        app: FlowFabric,
        store: Upkeep,
        pulse: ChangeSignal,
        crashes: Sequence[Crash],
        settings: dict[str, Any],
    ) -> None:
        self._app = app
        self._store = store
        self._settings = settings
        self._stack = AsyncExitStack()
        self._buried = False
        self.life = WorkerStore(store, pulse, crashes)
        self.seen = RunningHandlers(pulse, LabHooks(self.life))
        self.runtime: Runtime

    async def start(self) -> None:
        """Open what it needs; it takes nothing before it is offered something."""
        layers = [self.seen, *self._settings.get("layers", ())]
        worker = self._app.worker(**{**self._settings, "grace": 0, "engine": False, "layers": layers})
        with self._app.using(self.life):
            self.runtime = await self._stack.enter_async_context(worker)
        handlers = self.runtime.handlers
        self.runtime.handlers = {kind: _mortal(handler, self.life) for kind, handler in handlers.items()}

    async def held(self) -> set[str]:
        """Name the runs that it holds, as the store knows."""
        if not self.life.instance_id:
            return set()
        return set(await self._store.read(ListLeases(worker_instance_id=self.life.instance_id)))

    async def renew(self) -> None:
        """Renew its leases now, by the time of the lab; handlers whose lease is gone are interrupted."""
        await self.runtime.worker.renewer.renew_now()

    async def bury(self) -> None:
        """End the thread of a dead worker."""
        if not self._buried:
            self._buried = True
            await self.runtime.worker.renewer.close()

    async def stop(self) -> None:
        """End it, dead or alive."""
        await self.life.let_go()
        await self._stack.aclose()


def _mortal(handler: Handler, life: WorkerStore) -> Handler:
    """Return the handler so that it freezes when its worker dies; a process is killed with its worker instead."""
    if handler.executor == "process":
        return handler

    @functools.wraps(handler.function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if handler.executor == "loop":
            return life.mortal(handler.function(*args, **kwargs))
        with life.in_thread():
            return handler.function(*args, **kwargs)

    return replace(handler, function=call)


class LabHooks(ContextHooks):
    """Gives the contexts of one worker the time of the lab, and freezes them when the worker dies."""

    def __init__(self, life: WorkerStore) -> None:
        self._life = life

    def step_timer(self, execution_id: str) -> StepTimer:
        """Return a timer that follows the clock of the lab."""
        return LabTimer(self._life.agenda, self._life.now, execution_id)

    async def before_step(self, execution_id: str, name: str) -> None:
        """Die if a crash is planned before this step."""
        if self._life.dies_before(execution_id, name):
            await asyncio.sleep(0)  # `mortal` freezes the step here

    async def wrap(self, work: Coroutine[Any, Any, R]) -> R:
        """Freeze the work when the worker dies."""
        return await self._life.mortal(work)
