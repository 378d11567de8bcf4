"""The same for handlers that are plain functions: steps and children, without `await`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from flowfabric.codecs import Duration
from flowfabric.worker.calls import Call
from flowfabric.worker.context.durable_calls import Child
from flowfabric.worker.options import Options
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

    def __init__(self, wait: Callable[[Coroutine[Any, Any, Any]], Any], child: Child[R_co]) -> None:
        self._wait = wait
        self._child = child
        self.id = child.id
        """The id of the child."""

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for its end and return what it returned; the worker is held meanwhile."""
        found: R_co = self._wait(self._child.result(timeout))
        return found

    def cancel(self, reason: str = "") -> None:
        """End it, whatever it is doing."""
        self._wait(self._child.cancel(reason))


class SyncDurableCalls:
    """Runs functions as steps and submits children, with options or without."""

    @overload
    def step(
        self, name: str, fn: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    def step(self, name: str, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def step(self, name: str) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    def step(self, name: str, fn: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> Any:
        """Run a function once, even if the worker dies: its result is stored and returned on every later run.

        ::

            rows = ctx.step("collect", collect_rows, month)

            @ctx.step("mail")                    # every call of it is a step
            def mail(to: str) -> None: ...
        """
        check_name(name)
        check_function(name, fn)
        return functools.partial(self._decorated, name) if fn is None else self._step(name, fn, args, kwargs)

    def _decorated(self, name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._step(name, fn, args, kwargs)

        return call

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
        """Submit another task, once; returns its handle."""
        return self._submit(function, args, kwargs)

    def _step(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        raise NotImplementedError

    def _submit(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        raise NotImplementedError


class SyncWithOptions(SyncDurableCalls):
    """What `options` of a `SyncContext` returns: steps and children of the same context, with these options."""

    def __init__(self, context: SyncContext, options: Options) -> None:
        self._context = context
        self._options = options

    def _step(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        return self._context._step(name, fn, args, kwargs, StepPolicy.of(self._options))

    def _submit(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return self._context._submit(function, args, kwargs, self._options)
