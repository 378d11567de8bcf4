"""The workers of a lab: real ones that claim when the lab says so, and that can crash."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, TypeVar

from flowfabric.app import FlowFabric
from flowfabric.model.operations.lease import ListLeases
from flowfabric.storage.base import Upkeep
from flowfabric.testing.crash import Crash
from flowfabric.testing.observed_store import ChangeSignal
from flowfabric.testing.running_handlers import RunningHandlers
from flowfabric.testing.step_timers import LabTimer
from flowfabric.testing.worker_store import WorkerStore
from flowfabric.worker import Handler, Runtime
from flowfabric.worker.context.hooks import ContextHooks
from flowfabric.worker.steps.policy import StepTimer

R = TypeVar("R")


class LabWorker:
    """One worker of a lab."""

    def __init__(
        self,
        app: FlowFabric,
        store: Upkeep,
        changes: ChangeSignal,
        crashes: Sequence[Crash],
        settings: dict[str, Any],
    ) -> None:
        self._app = app
        self._lab_store = store
        self._settings = settings
        self._stack = AsyncExitStack()
        self._is_cleaned_up = False
        self.store = WorkerStore(store, changes, crashes)
        self.handlers = RunningHandlers(changes, LabHooks(self.store))
        self.runtime: Runtime

    async def start(self) -> None:
        """Start the worker. It claims nothing before the lab offers work."""
        layers = [self.handlers, *self._settings.get("layers", ())]
        worker = self._app.worker(**{**self._settings, "grace": 0, "engine": False, "layers": layers})
        with self._app.using(self.store):
            self.runtime = await self._stack.enter_async_context(worker)
        handlers = self.runtime.handlers
        self.runtime.handlers = {kind: _crashable(handler, self.store) for kind, handler in handlers.items()}

    async def held(self) -> set[str]:
        """Return the runs whose leases it holds, according to the store."""
        if not self.store.instance_id:
            return set()
        return set(await self._lab_store.read(ListLeases(worker_instance_id=self.store.instance_id)))

    async def renew(self) -> None:
        """Renew its leases now, by the clock of the lab; handlers whose lease is gone are interrupted."""
        await self.runtime.worker.renewer.renew_now()

    async def clean_up(self) -> None:
        """Stop the renewal thread of a crashed worker."""
        if not self._is_cleaned_up:
            self._is_cleaned_up = True
            await self.runtime.worker.renewer.close()

    async def stop(self) -> None:
        """Stop the worker, crashed or not."""
        await self.store.release()
        await self._stack.aclose()


def _crashable(handler: Handler, store: WorkerStore) -> Handler:
    """Return the handler so that it freezes when its worker crashes; a process is killed with its worker instead."""
    if handler.executor == "process":
        return handler

    @functools.wraps(handler.function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if handler.executor == "loop":
            return store.until_crash(handler.function(*args, **kwargs))
        with store.in_thread():
            return handler.function(*args, **kwargs)

    return replace(handler, function=call)


class LabHooks(ContextHooks):
    """Gives the contexts of one worker the clock of the lab, and freezes them when the worker crashes."""

    def __init__(self, store: WorkerStore) -> None:
        self._store = store

    def step_timer(self, execution_id: str) -> StepTimer:
        """Return a timer that follows the clock of the lab."""
        return LabTimer(self._store.step_timers, self._store.now, execution_id)

    async def before_step(self, execution_id: str, name: str) -> None:
        """Crash if that is planned before this step."""
        if self._store.crashes_before(execution_id, name):
            await asyncio.sleep(0)  # `until_crash` freezes the step here

    async def wrap(self, work: Coroutine[Any, Any, R]) -> R:
        """Freeze the work when the worker crashes."""
        return await self._store.until_crash(work)
