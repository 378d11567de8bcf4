"""The same for handlers that are plain functions: every call waits for its answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from typing import Any, ParamSpec, TypeVar, Unpack, overload

from flowfabric.codecs import Duration
from flowfabric.worker.context.context import Context
from flowfabric.worker.context.sync_durable_calls import SyncChild, SyncDurableCalls, SyncWithOptions
from flowfabric.worker.context.waits import Count, Signal, Waitpoint
from flowfabric.worker.execution.threads import waiting
from flowfabric.worker.options import NOTHING, Options, SubmitOptions, options_of
from flowfabric.worker.steps.policy import StepPolicy

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class SyncContext(SyncDurableCalls):
    """Given to a handler that is a plain `def`: what `Context` does, without `await`.

    ::

        @app.task
        def report(ctx: SyncContext, month: str) -> int:
            rows = ctx.step("collect", collect_rows, month)
            return len(rows)
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._loop = asyncio.get_running_loop()

    @property
    def execution_id(self) -> str:
        """The id of the run."""
        return self._context.execution_id

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 0."""
        return self._context.attempt

    @property
    def tags(self) -> dict[str, str]:
        """The tags of the run."""
        return self._context.tags

    @property
    def fence(self) -> str:
        """A token that grows with every holder of this run."""
        return self._context.fence

    @property
    def deadline(self) -> datetime | None:
        """When the time of this attempt, or of the whole run, is over, by the store's clock; none: never."""
        return self._context.deadline

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that knows the ids of this run."""
        return self._context.log

    @property
    def cancelled(self) -> bool:
        """Whether somebody has cancelled the run."""
        return self._context.cancelled.is_set()

    @property
    def lost(self) -> bool:
        """Whether the lease is gone: change nothing more."""
        return self._context.lost.is_set()

    def options(self, **options: Unpack[SubmitOptions]) -> SyncWithOptions:
        """Call a step or submit a child with options; see `Context.options`.

        ::

            rows = ctx.options(retries=3, timeout="30s").step("collect", collect_rows, month)
        """
        return SyncWithOptions(self, options_of(options))

    def _step(
        self,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        policy: StepPolicy | None = None,
    ) -> Any:
        async def run() -> Any:
            return await self._context._step(name, fn, args, kwargs, policy)

        return self._wait(run())

    def _submit(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: Options = NOTHING
    ) -> Any:
        return SyncChild(self._wait, self._wait(self._context._submit(function, args, kwargs, options)))

    def sleep(self, duration: Duration) -> None:
        """Give the lease back and go on after a while."""
        self._wait(self._context.sleep(duration))

    @overload
    def wait_for_signal(
        self,
        *names: str,
        count: None = None,
        distinct: bool = False,
        timeout: Duration | None = None,
        name: str = "",
        waitpoint: Waitpoint | None = None,
        message: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> Signal: ...
    @overload
    def wait_for_signal(
        self,
        *names: str,
        count: Count,
        distinct: bool = False,
        timeout: Duration | None = None,
        name: str = "",
        waitpoint: Waitpoint | None = None,
        message: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> list[Signal]: ...

    def wait_for_signal(
        self,
        *names: str,
        count: Count | None = None,
        distinct: bool = False,
        timeout: Duration | None = None,
        name: str = "",
        waitpoint: Waitpoint | None = None,
        message: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> Signal | list[Signal]:
        """Give the lease back until signals come."""
        waiting: Coroutine[Any, Any, Signal | list[Signal]] = self._context.wait_for_signal(
            *names,
            count=count,
            distinct=distinct,
            timeout=timeout,
            name=name,
            waitpoint=waitpoint,
            message=message,
            details=details,
        )
        return self._wait(waiting)

    def create_waitpoint(
        self,
        key: str,
        expires: Duration = "1d",
        *,
        message: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> Waitpoint:
        """Open a waitpoint before waiting on it."""
        return self._wait(self._context.create_waitpoint(key, expires, message=message, details=details))

    def approval_link(
        self, waitpoint: Waitpoint, *signal_names: str, expires: Duration = "1d", to: str = ""
    ) -> str:
        """Make a link that lets whoever opens it send one of some signals, once; it is a page of the server."""
        return self._wait(self._context.approval_link(waitpoint, *signal_names, expires=expires, to=to))

    def emit(
        self,
        frame_type: str,
        payload: Any,
        *,
        best_effort: bool = False,
        correlation_id: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Append a frame to the stream of this attempt."""
        self._wait(
            self._context.emit(
                frame_type,
                payload,
                best_effort=best_effort,
                correlation_id=correlation_id,
                metadata=metadata,
            )
        )

    def summary(self, patch: Mapping[str, Any]) -> None:
        """Merge a patch into the summary document of this attempt."""
        self._wait(self._context.summary(patch))

    def flush(self) -> None:
        """Wait until every frame is stored. Done by itself before the handler ends or waits."""
        self._wait(self._context.flush())

    def progress(self, pct: int | None = None, message: str | None = None) -> None:
        """Say how far the work is."""
        self._wait(self._context.progress(pct, message))

    def _wait(self, work: Coroutine[Any, Any, R]) -> R:
        with contextlib.closing(work), waiting():
            good, value = asyncio.run_coroutine_threadsafe(self._context._caught(work), self._loop).result()
        if not good:
            raise value
        return value  # type: ignore[no-any-return]
