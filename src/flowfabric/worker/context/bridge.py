"""How a handler outside the event loop reaches its context, which lives on it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

from flowfabric.worker.context.context import Context
from flowfabric.worker.context.facts import ContextFacts, Log
from flowfabric.worker.context.session import HandlerSession
from flowfabric.worker.execution.threads import waiting
from flowfabric.worker.options import Options
from flowfabric.worker.steps.policy import StepPolicy

P = ParamSpec("P")
R = TypeVar("R")
ContextMethod = Callable[Concatenate[Context, P], Coroutine[Any, Any, R]]
ChildMethod = Literal["result", "cancel"]


class ContextBridge(Protocol):
    """Connects a `SyncContext` with the session of its handler. Every call waits for its answer."""

    @property
    def facts(self) -> ContextFacts:
        """What is known without asking."""

    @property
    def log(self) -> Log:
        """The logger of the run."""

    def is_cancelled(self) -> bool:
        """Return True if the run has been cancelled."""

    def is_lost(self) -> bool:
        """Return True if the lease is gone."""

    def call(self, method: ContextMethod[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a method of `Context`."""

    def run_step(
        self,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        policy: StepPolicy | None,
    ) -> Any:
        """Run a step and return its result."""

    def submit(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: Options
    ) -> str:
        """Submit a child and return its id."""

    def call_child(self, child_id: str, method: ChildMethod, argument: Any) -> Any:
        """Call a method of the handle of a child."""


class ThreadBridge:
    """Connects a handler in a thread with the event loop of its worker. Created on that loop."""

    def __init__(self, session: HandlerSession) -> None:
        self._session = session
        self._context = Context(session)
        self._loop = asyncio.get_running_loop()

    @property
    def facts(self) -> ContextFacts:
        """What is known without asking."""
        return self._session.facts

    @property
    def log(self) -> Log:
        """The logger of the run."""
        return self._session.log

    def is_cancelled(self) -> bool:
        """Return True if the run has been cancelled."""
        return self._session.cancelled.is_set()

    def is_lost(self) -> bool:
        """Return True if the lease is gone."""
        return self._session.lost.is_set()

    def call(self, method: ContextMethod[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a method of `Context`."""
        return self._run(method(self._context, *args, **kwargs))

    def run_step(
        self,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        policy: StepPolicy | None,
    ) -> Any:
        """Run a step and return its result."""

        async def run() -> Any:  # the journal is used on the event loop only
            return await self._session.steps.run(name, fn, args, kwargs, policy)

        return self._run(run())

    def submit(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: Options
    ) -> str:
        """Submit a child and return its id."""
        return self._run(self._session.children.submit(function, args, kwargs, options)).id

    def call_child(self, child_id: str, method: ChildMethod, argument: Any) -> Any:
        """Call a method of the handle of a child."""
        return self._run(getattr(self._session.children.by_id[child_id], method)(argument))

    def _run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine on the worker's event loop and wait for its result."""
        wrapped = self._session.hooks.wrap(work)
        with contextlib.closing(wrapped), waiting():
            call = asyncio.run_coroutine_threadsafe(self._session.carry_out(wrapped), self._loop)
            succeeded, value = call.result()
        if not succeeded:
            raise value
        return value  # type: ignore[no-any-return]
