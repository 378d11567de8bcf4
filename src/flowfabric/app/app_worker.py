"""The worker of an app: opens its store and dependencies, publishes its tasks, and runs its hooks."""

from __future__ import annotations

import hashlib
import inspect
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any

from msgspec.structs import replace

from flowfabric.app.dependencies import OpenedDependencies
from flowfabric.app.publishing import Publisher, kind_of_task
from flowfabric.app.run import Run
from flowfabric.app.submitter import AppCore, Submitter
from flowfabric.model.limits import MAX_NAME_BYTES
from flowfabric.model.operations.kind import PublishKind
from flowfabric.worker.calls import Call
from flowfabric.worker.handlers import Handler, WorkerSettings
from flowfabric.worker.layers import Layer
from flowfabric.worker.options import NOTHING, Options
from flowfabric.worker.runtime import Runtime

Hook = Callable[[], Any]


class AppChildSubmitter:
    """Submits children for handlers. A key makes sure that a handler that runs twice submits each child once."""

    def __init__(self, core: AppCore) -> None:
        self._core = core

    async def submit(
        self, key: str, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: Options
    ) -> str:
        """Submit a call, under a key unless its options have one, and return its id."""
        if len(key.encode()) > MAX_NAME_BYTES:
            key = hashlib.sha256(key.encode()).hexdigest()
        if isinstance(function, Call):
            return (await Submitter(self._core, NOTHING).submit(_keyed(function, key))).id
        run: Run[Any] = await Submitter(self._core, options.over(Options(key=key))).submit(
            function, *args, **kwargs
        )
        return run.id

    def run(self, execution_id: str, function: Any) -> Run[Any]:
        """Return the handle of a submitted child."""
        if isinstance(function, Call):
            return Run(self._core.home, execution_id, function.returns, codec=function.codec)
        return self._core.run(execution_id, function)


def _keyed(call: Call[Any], key: str) -> Call[Any]:
    """Return the call with a key, unless it has one of its own."""
    command = call.command
    return call if command.idempotency_key else replace(call, command=replace(command, idempotency_key=key))


class AppWorker:
    """The worker of an app: `async with app.worker(): …`, or `await app.worker().run()` until SIGTERM or SIGINT."""

    def __init__(
        self,
        core: AppCore,
        settings: WorkerSettings,
        *,
        layers: Sequence[Layer],
        engine: bool | None,
        starts: Sequence[Hook],
        stops: Sequence[Hook],
    ) -> None:
        self._core = core
        self._settings = settings
        self._layers = layers
        self._engine = engine
        self._starts = starts
        self._stops = stops
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Runtime:
        async with AsyncExitStack() as stack:
            runtime = await stack.enter_async_context(await self._prepare(stack))
            self._stack = stack.pop_all()
        return runtime

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT."""
        async with AsyncExitStack() as stack:
            await (await self._prepare(stack)).run()

    async def _prepare(self, stack: AsyncExitStack) -> Runtime:
        """Open the store and run the start hooks; the stack undoes both in reverse order."""
        core = self._core
        handlers = core.registry.handlers()
        needed = frozenset(type_ for each in handlers.values() for type_ in each.dependencies.values())
        await core.connection.enter()
        stack.push_async_callback(core.connection.leave)
        store = await core.connection.get()
        stack.push_async_callback(_run, self._stops)
        await _run(self._starts)
        await stack.enter_async_context(Publisher(store, self._kinds(handlers)))
        engine = store.traits.is_direct if self._engine is None else self._engine
        return Runtime(
            store,
            handlers,
            self._settings,
            resolver=OpenedDependencies(core.registry.factories, needed),
            layers=self._layers,
            url=core.connection.url,
            submitter=AppChildSubmitter(core),
            engine=engine,
        )

    def _kinds(self, handlers: Mapping[str, Handler]) -> list[PublishKind]:
        """Return the commands that publish the tasks, for submissions by name."""
        core, actor = self._core, self._settings.worker_id or socket.gethostname()
        return [
            kind_of_task(core.registry.by_kind[kind], handler, core.namespace, actor)
            for kind, handler in handlers.items()
        ]


async def _run(hooks: Sequence[Hook]) -> None:
    for hook in hooks:
        answer = hook()
        if inspect.isawaitable(answer):
            await answer
