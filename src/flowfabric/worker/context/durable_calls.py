"""Durable calls of a context: functions as steps, and other tasks as children."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from flowfabric.worker.calls import Call
from flowfabric.worker.context.children import Child
from flowfabric.worker.context.session import HandlerSession
from flowfabric.worker.options import NOTHING, Options
from flowfabric.worker.steps.journal import check_function, check_name
from flowfabric.worker.steps.policy import StepPolicy

if TYPE_CHECKING:
    from flowfabric.worker.context.context import Context
    from flowfabric.worker.context.sync_context import SyncContext

P = ParamSpec("P")
R = TypeVar("R")


class StepDecorator(Protocol):
    """The decorator that `ctx.step("name")` returns: every call of the decorated function is a step."""

    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]], /) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Callable[P, Coroutine[Any, Any, R]]: ...


class DurableCalls:
    """Runs functions as steps and submits children, with options or without."""

    def __init__(self, session: HandlerSession, options: Options | None = None) -> None:
        self._session = session
        self._call_options = options

    @overload
    def step(
        self, name: str, fn: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...

    @overload
    def step(
        self, name: str, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...

    @overload
    def step(self, name: str) -> StepDecorator: ...

    def step(self, name: str, fn: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> Any:
        """Run a function once and store its result; later runs of the handler return the stored result.

        ::

            draft = await ctx.step("draft", write_draft, doc)

            @ctx.step("mail")                    # every call of the function is a step
            async def mail(to: str) -> None: ...

            await mail("ada@example.org")

        A function without `async` runs in a thread. The second step with the same name is stored as `name#2`. If the
        function raises, nothing is stored, and the exception is raised here. If the worker dies after the function has
        returned and before its result is stored, the function runs again: pass `fence`, or an idempotency key of your
        own, to systems that must not repeat the effect.
        """
        check_name(name)
        check_function(name, fn)
        if fn is None:
            return functools.partial(self._decorated, name)
        return self._run_step(name, fn, args, kwargs)

    def _decorated(self, name: str, fn: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
            return self._run_step(name, fn, args, kwargs)

        return call

    def _run_step(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Coroutine[Any, Any, Any]:
        policy = None if self._call_options is None else StepPolicy.of(self._call_options)
        return self._session.steps.run(name, fn, args, kwargs, policy)

    # Children.

    @overload
    async def submit(self, function: Call[R], /) -> Child[R]: ...
    @overload
    async def submit(
        self,
        function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Child[R]: ...
    @overload
    async def submit(
        self, function: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Child[R]: ...
    @overload
    async def submit(
        self, function: Callable[Concatenate[SyncContext, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Child[R]: ...
    @overload
    async def submit(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Child[R]: ...
    @overload
    async def submit(self, function: str, /, *args: Any, **kwargs: Any) -> Child[Any]: ...

    async def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Submit another task, once however often this handler runs, and return its handle, a `Child`.

        ::

            child = await ctx.submit(resize, "a.png")
            path = await child.result()          # occupies this worker until then

        A child with options of its own: `ctx.options(delay="1h").submit(resize, "a.png")`.
        """
        return await self._session.children.submit(function, args, kwargs, self._call_options or NOTHING)


class WithOptions(DurableCalls):
    """What `Context.options` returns: steps and children of the same context, with these options."""
