"""The workers of a lab: real ones, that are told when to look for work, and whose handlers can be struck."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from flowfabric.app import FlowFabric
from flowfabric.model.contracts.reads import ListLeases
from flowfabric.storage.base import Upkeep
from flowfabric.testing.step_timers import LabTimer
from flowfabric.testing.worker_store import Crash, Life, Pulse, Seen
from flowfabric.worker import Context, Handler, Runtime, SyncContext


class Hand:
    """One worker."""

    def __init__(
        self, app: FlowFabric, store: Upkeep, pulse: Pulse, crashes: Sequence[Crash], settings: dict[str, Any]
    ) -> None:
        self._app = app
        self._store = store
        self._settings = settings
        self._stack = AsyncExitStack()
        self._buried = False
        self.life = Life(store, pulse, crashes)
        self.seen = Seen(pulse)
        self.runtime: Runtime

    async def start(self) -> None:
        """Open what it needs; it takes nothing before it is offered something."""
        layers = [self.seen, *self._settings.get("layers", ())]
        worker = self._app.worker(**{**self._settings, "grace": 0, "engine": False, "layers": layers})
        with self._app.using(self.life):
            self.runtime = await self._stack.enter_async_context(worker)
        handlers = self.runtime.handlers
        self.runtime.handlers = {kind: _struck(handler, self.life) for kind, handler in handlers.items()}

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


def _struck(handler: Handler, life: Life) -> Handler:
    """Let a handler stand still when its worker dies; one in a process of its own is killed with its worker instead."""
    if handler.executor == "process":
        return handler

    @functools.wraps(handler.function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if isinstance(value, SyncContext):
                value._wait = _slowed(value._wait, life)  # type: ignore[method-assign]
                _watch(value._context, life)
            elif isinstance(value, Context):
                _watch(value, life)
        if handler.executor == "loop":
            return life.mortal(handler.function(*args, **kwargs))
        with life.in_thread():
            return handler.function(*args, **kwargs)

    return replace(handler, function=call)


def _slowed(wait: Callable[..., Any], life: Life) -> Callable[..., Any]:
    async def alive(work: Coroutine[Any, Any, Any]) -> Any:
        return await life.mortal(work)

    return lambda work: wait(alive(work))


def _watch(context: Context, life: Life) -> None:
    context._timer = LabTimer(life.agenda, life.now, context.execution_id)
    run_step = context._run_step

    async def watched(name: str, *rest: Any, **named: Any) -> Any:
        if await context._steps.find(name) is None:
            life.before_step(context.execution_id, name)
        return await life.mortal(run_step(name, *rest, **named))

    context._run_step = watched  # type: ignore[method-assign]
