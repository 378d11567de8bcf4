"""The typed methods that submit calls: they take the arguments of the task, and the run has the type of its result.

The overloads distinguish `async def` and `def`, each with or without a context as first parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from flowfabric.app.run import Run
from flowfabric.worker.calls import Call
from flowfabric.worker.context.context import Context
from flowfabric.worker.context.sync_context import SyncContext

P = ParamSpec("P")
R = TypeVar("R")


class SubmitMethods:
    """The typed methods that submit calls, of an app, of `app.options(…)` and of a lab."""

    _has_options = False
    """Whether options were given that a prepared call would not have."""

    @overload
    def call(
        self,
        task: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Call[R]: ...
    @overload
    def call(
        self, task: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Call[R]: ...
    @overload
    def call(
        self, task: Callable[Concatenate[SyncContext, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Call[R]: ...
    @overload
    def call(self, task: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Call[R]: ...
    @overload
    def call(self, task: str, /, *args: Any, **kwargs: Any) -> Call[Any]: ...

    def call(self, task: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> Call[Any]:
        """Prepare a call without submitting it, for `submit_many`. Its arguments are checked now."""
        return self._call(task, args, kwargs)

    @overload
    async def submit(self, task: Call[R], /) -> Run[R]: ...
    @overload
    async def submit(
        self,
        task: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Run[R]: ...
    @overload
    async def submit(
        self, task: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Run[R]: ...
    @overload
    async def submit(
        self, task: Callable[Concatenate[SyncContext, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Run[R]: ...
    @overload
    async def submit(self, task: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Run[R]: ...
    @overload
    async def submit(self, task: str, /, *args: Any, **kwargs: Any) -> Run[Any]: ...

    async def submit(
        self, task: Callable[..., Any] | Call[Any] | str, /, *args: Any, **kwargs: Any
    ) -> Run[Any]:
        """Submit a call of a task to be run by a worker, and return its handle.

        ::

            run = await app.submit(review, "text", pages=3)
            print(await run.result())

            await app.submit("resize", path="a.png")      # a task of another program, by its kind
            call = app.call(review, "text")               # prepared: sent twice, it is one run
            await app.submit(call)

        The arguments are those of the task, without its context, and type checkers know the type of the result. When
        this returns, the call is stored, and survives this process.

        Raises `InvalidInput` if an argument does not fit, `UnknownTask` if the function is not a task, and
        `Unreachable` if the store has been unreachable for five seconds; repeating the submission is then safe with a
        `key`, or with the same prepared call.
        """
        if isinstance(task, Call):
            if args or kwargs or self._has_options:
                raise TypeError(
                    "a call that was prepared has its arguments and options: app.options(…).call(task, …)"
                )
            return await self._submit(task)
        return await self._submit(self._call(task, args, kwargs))

    async def submit_many(self, calls: Iterable[Call[R]]) -> list[Run[R]]:
        """Submit many calls in few round trips, and return their handles in the same order.

        ::

            runs = await app.submit_many(app.call(review, text) for text in texts)

        Raises `SubmitRefused` if some are refused; the others are submitted.
        """
        given = list(calls)
        each: object
        for place, each in enumerate(given):
            if not isinstance(each, Call):
                wrong = type(each).__qualname__
                raise TypeError(
                    f"calls[{place}] is a {wrong}: submit_many takes what app.call(task, …) returns"
                )
        return await self._submit_many(given)

    def _call(
        self, task: Callable[..., Any] | str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Call[Any]:
        raise NotImplementedError

    async def _submit(self, call: Call[R]) -> Run[R]:
        raise NotImplementedError

    async def _submit_many(self, calls: list[Call[R]]) -> list[Run[R]]:
        raise NotImplementedError
