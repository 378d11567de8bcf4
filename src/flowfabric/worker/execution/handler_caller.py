"""Calling a handler: decode its arguments, and call it on its executor inside all layers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final

from flowfabric.model.errors import InvalidInput
from flowfabric.worker.context.bridge import ThreadBridge
from flowfabric.worker.context.children import ChildSubmitter
from flowfabric.worker.context.context import Context
from flowfabric.worker.context.session import HandlerSession
from flowfabric.worker.context.sync_context import SyncContext
from flowfabric.worker.execution.processes import ProcessPool
from flowfabric.worker.execution.running_task import RunningTask
from flowfabric.worker.execution.threads import in_thread
from flowfabric.worker.faults import InvalidArguments
from flowfabric.worker.handlers import Executor, Handler, Resolver
from flowfabric.worker.layers import Layer


class HandlerCaller:
    """Calls the handlers of one worker."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        layers: Sequence[Layer],
        resolver: Resolver | None,
        submitter: ChildSubmitter | None,
        processes: ProcessPool,
    ) -> None:
        self._async_kinds = {
            kind for kind, each in handlers.items() if inspect.iscoroutinefunction(each.function)
        }
        self._layers = layers
        self._resolver = resolver
        self._submitter = submitter
        self._processes = processes

    def call(self, running: RunningTask) -> Coroutine[Any, Any, Any]:
        """Return the coroutine that runs a handler inside all layers."""
        if not self._layers:
            return self._call_inside(running)
        task = running.task

        async def run() -> Any:
            return await self._call_inside(running)

        for layer in reversed(self._layers):
            run = _around(layer, task.execution_kind, task.execution_id, run)
        return run()

    def _call_inside(self, running: RunningTask) -> Coroutine[Any, Any, Any]:
        """Decode the input, and call the handler on its executor."""
        task, handler = running.task, running.handler
        try:
            values = handler.signature.unbind(task.task.input, task.task.payload_encoding)
        except InvalidInput as error:
            raise InvalidArguments(str(error)) from error
        for name, type_ in handler.dependencies.items():
            assert self._resolver is not None, "the app gives a resolver with its dependencies"
            values[name] = self._resolver.get(type_)
        if handler.context:
            session = running.session = HandlerSession(task, handler.codec, self._submitter)
            values[handler.context] = _CONTEXTS[handler.executor](session)
        placed, named = handler.signature.order(values)
        if handler.executor == "process":
            return self._processes.run(running, handler.function, placed, named, running.session)
        if handler.executor == "thread":
            return in_thread(partial(handler.function, *placed, **named), running)
        if handler.kind in self._async_kinds:
            return handler.function(*placed, **named)  # type: ignore[no-any-return]
        return _plainly(handler.function, placed, named)


_CONTEXTS: Final[Mapping[Executor, Callable[[HandlerSession], Any]]] = {
    "loop": Context,
    "thread": lambda session: SyncContext(ThreadBridge(session)),
    "process": lambda session: session.facts,
}
"""What a handler is called with as its context; its process turns facts into a `SyncContext`."""


async def _plainly(function: Callable[..., Any], placed: list[Any], named: dict[str, Any]) -> Any:
    """Call a function that is not `async`, and await its result if that is awaitable."""
    value = function(*placed, **named)
    return await value if inspect.isawaitable(value) else value


def _around(layer: Layer, kind: str, execution_id: str, run: Any) -> Any:
    return lambda: layer.handle(kind, execution_id, run)
