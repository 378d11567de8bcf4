"""The context of handlers that are plain functions, in threads and in processes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Unpack, overload

from flowfabric.codecs import Duration
from flowfabric.worker.context.context import Context
from flowfabric.worker.context.facts import Log
from flowfabric.worker.context.sync_durable_calls import SyncDurableCalls, SyncWithOptions
from flowfabric.worker.context.waits import Count, Signal, Waitpoint
from flowfabric.worker.options import SubmitOptions, options_of


class SyncContext(SyncDurableCalls):
    """Given to a handler that is a plain `def`: the methods of `Context`, without `await`.

    ::

        @app.task
        def report(ctx: SyncContext, month: str) -> int:
            rows = ctx.step("collect", collect_rows, month)
            return len(rows)
    """

    @property
    def execution_id(self) -> str:
        """The id of the run."""
        return self._bridge.facts.execution_id

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 0."""
        return self._bridge.facts.attempt

    @property
    def tags(self) -> dict[str, str]:
        """The tags of the run."""
        return self._bridge.facts.tags

    @property
    def fence(self) -> str:
        """A fencing token that grows with every holder of this run."""
        return self._bridge.facts.fence

    @property
    def deadline(self) -> datetime | None:
        """When this attempt or the whole run times out, by the store's clock; None if never."""
        return self._bridge.facts.deadline

    @property
    def log(self) -> Log:
        """A logger that adds the ids of this run to every record."""
        return self._bridge.log

    @property
    def cancelled(self) -> bool:
        """Whether the run has been cancelled."""
        return self._bridge.is_cancelled()

    @property
    def lost(self) -> bool:
        """Whether the lease is gone: the handler must change nothing more."""
        return self._bridge.is_lost()

    def options(self, **options: Unpack[SubmitOptions]) -> SyncWithOptions:
        """Call a step or submit a child with options; see `Context.options`.

        ::

            rows = ctx.options(retries=3, timeout="30s").step("collect", collect_rows, month)
        """
        return SyncWithOptions(self._bridge, options_of(options))

    def sleep(self, duration: Duration) -> None:
        """Give the lease back, and continue after some time."""
        self._bridge.call(Context.sleep, duration)

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
        """Give the lease back until a signal with one of the names arrives; with `count`, until several do."""
        wait: Any = Context.wait_for_signal  # its overloads fit no ParamSpec
        answer: Signal | list[Signal] = self._bridge.call(
            wait,
            *names,
            count=count,
            distinct=distinct,
            timeout=timeout,
            name=name,
            waitpoint=waitpoint,
            message=message,
            details=details,
        )
        return answer

    def create_waitpoint(
        self,
        key: str,
        expires: Duration = "1d",
        *,
        message: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> Waitpoint:
        """Open a waitpoint before waiting on it."""
        return self._bridge.call(Context.create_waitpoint, key, expires, message=message, details=details)

    def approval_link(
        self, waitpoint: Waitpoint, *signal_names: str, expires: Duration = "1d", to: str = ""
    ) -> str:
        """Make a link to a page of the server on which whoever opens it can send one of the signals, once."""
        return self._bridge.call(Context.approval_link, waitpoint, *signal_names, expires=expires, to=to)

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
        self._bridge.call(
            Context.emit,
            frame_type,
            payload,
            best_effort=best_effort,
            correlation_id=correlation_id,
            metadata=metadata,
        )

    def summary(self, patch: Mapping[str, Any]) -> None:
        """Merge a patch into the summary document of this attempt."""
        self._bridge.call(Context.summary, patch)

    def flush(self) -> None:
        """Wait until every frame is stored. Happens automatically before the handler ends or waits."""
        self._bridge.call(Context.flush)

    def progress(self, pct: int | None = None, message: str | None = None) -> None:
        """Report the progress of the work."""
        self._bridge.call(Context.progress, pct, message)
