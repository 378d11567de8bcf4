"""What a context offers to call durably: functions as steps, and other tasks as children."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from flowfabric.codecs import Duration
from flowfabric.worker.calls import Call
from flowfabric.worker.options import Options
from flowfabric.worker.steps.journal import check_function, check_name
from flowfabric.worker.steps.policy import StepPolicy

if TYPE_CHECKING:
    from flowfabric.worker.context.context import Context
    from flowfabric.worker.context.sync_context import SyncContext

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Submitter(Protocol):
    """How the app submits a child; the key makes sure that it is done once."""

    async def submit(
        self, key: str, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: Options
    ) -> str:
        """Submit it and return its id; the key counts if the options have none."""

    def run(self, execution_id: str, function: Any) -> Any:
        """Return the handle of a child that was submitted."""


class StepDecorator(Protocol):
    """What `@ctx.step("name")` is: every call of the function becomes a step."""

    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]], /) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Callable[P, Coroutine[Any, Any, R]]: ...


class Child(Protocol[R_co]):
    """The handle of a run that a handler has submitted; it is a `Run`, with all that runs can do."""

    @property
    def id(self) -> str:
        """The id of the child."""

    async def result(self, timeout: Duration | None = None) -> R_co:  # noqa: ASYNC109 - waiting is the purpose
        """Wait for its end and return what it returned; the worker is held meanwhile."""

    async def cancel(self, reason: str = "") -> None:
        """End it, whatever it is doing."""


class DurableCalls:
    """Runs functions as steps and submits children, with options or without."""

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
        """Run a function once, even if the worker dies: its result is stored and returned on every later run.

        ::

            draft = await ctx.step("draft", write_draft, doc)

            @ctx.step("mail")                    # every call of it is a step
            async def mail(to: str) -> None: ...

            await mail("ada@example.org")

        A sync function runs in a thread. Names repeat by order: `name`, `name#2`. A function that fails stores nothing,
        and what it raised is raised here. A worker that dies between the end of the function and the storing of its
        result lets it run once more: give `fence`, or a key of your own, to systems that must not do it twice.
        """
        check_name(name)
        check_function(name, fn)
        if fn is None:
            return functools.partial(self._decorated, name)
        return self._step(name, fn, args, kwargs)

    def _decorated(self, name: str, fn: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
            return self._step(name, fn, args, kwargs)

        return call

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
        """Submit another task, once, however often this handler runs; returns its handle, a `Child`.

        ::

            child = await ctx.submit(resize, "a.png")
            path = await child.result()          # this worker is held until then

        A child with options of its own: `ctx.options(delay="1h").submit(resize, "a.png")`.
        """
        return await self._submit(function, args, kwargs)

    def _step(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Coroutine[Any, Any, Any]:
        raise NotImplementedError

    async def _submit(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        raise NotImplementedError


class WithOptions(DurableCalls):
    """What `Context.options` returns: steps and children of the same context, with these options."""

    def __init__(self, context: Context, options: Options) -> None:
        self._context = context
        self._options = options

    def _step(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Coroutine[Any, Any, Any]:
        return self._context._step(name, fn, args, kwargs, StepPolicy.of(self._options))

    async def _submit(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return await self._context._submit(function, args, kwargs, self._options)
