"""Durable calls of handlers that are plain functions: steps and children, without `await`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from flowfabric.codecs import Duration
from flowfabric.worker.calls import Call
from flowfabric.worker.context.bridge import ContextBridge
from flowfabric.worker.options import NOTHING, Options
from flowfabric.worker.steps.journal import check_function, check_name
from flowfabric.worker.steps.policy import StepPolicy

if TYPE_CHECKING:
    from flowfabric.worker.context.context import Context
    from flowfabric.worker.context.sync_context import SyncContext

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class SyncChild(Generic[R_co]):
    """The handle of a run that a handler has submitted, for handlers that are plain functions."""

    def __init__(self, bridge: ContextBridge, child_id: str) -> None:
        self._bridge = bridge
        self.id = child_id
        """The id of the child."""

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the end of the child and return its result. The worker is occupied meanwhile."""
        found: R_co = self._bridge.call_child(self.id, "result", timeout)
        return found

    def cancel(self, reason: str = "") -> None:
        """Cancel the child."""
        self._bridge.call_child(self.id, "cancel", reason)


class SyncDurableCalls:
    """Runs functions as steps and submits children, with options or without."""

    def __init__(self, bridge: ContextBridge, options: Options | None = None) -> None:
        self._bridge = bridge
        self._call_options = options

    @overload
    def step(
        self, name: str, fn: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    def step(self, name: str, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def step(self, name: str) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    def step(self, name: str, fn: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> Any:
        """Run a function once and store its result; later runs of the handler return the stored result.

        ::

            rows = ctx.step("collect", collect_rows, month)

            @ctx.step("mail")                    # every call of the function is a step
            def mail(to: str) -> None: ...
        """
        check_name(name)
        check_function(name, fn)
        if fn is None:
            return functools.partial(self._decorated, name)
        return self._run_step(name, fn, args, kwargs)

    def _decorated(self, name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._run_step(name, fn, args, kwargs)

        return call

    def _run_step(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        policy = None if self._call_options is None else StepPolicy.of(self._call_options)
        return self._bridge.run_step(name, fn, args, kwargs, policy)

    @overload
    def submit(self, function: Call[R], /) -> SyncChild[R]: ...
    @overload
    def submit(
        self,
        function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> SyncChild[R]: ...
    @overload
    def submit(
        self, function: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> SyncChild[R]: ...
    @overload
    def submit(
        self, function: Callable[Concatenate[SyncContext, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> SyncChild[R]: ...
    @overload
    def submit(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> SyncChild[R]: ...
    @overload
    def submit(self, function: str, /, *args: Any, **kwargs: Any) -> SyncChild[Any]: ...

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Submit another task, once however often this handler runs, and return its handle."""
        options = self._call_options or NOTHING
        return SyncChild(self._bridge, self._bridge.submit(function, args, kwargs, options))


class SyncWithOptions(SyncDurableCalls):
    """What `options` of a `SyncContext` returns: steps and children of the same context, with these options."""
