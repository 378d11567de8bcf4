"""The context of a handler: durable steps, sleeps, waits for signals, streams, progress."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Unpack, overload

from flowfabric.codecs import Duration
from flowfabric.worker.claimed_task import ClaimedTask
from flowfabric.worker.context.durable_calls import DurableCalls, WithOptions
from flowfabric.worker.context.facts import Log
from flowfabric.worker.context.lease_guard import stop_if_lost
from flowfabric.worker.context.waits import Count, Signal, Waitpoint
from flowfabric.worker.options import SubmitOptions, options_of


class Context(DurableCalls):
    """Given to an `async def` handler that has a parameter of this type.

    ::

        @app.task
        async def review(ctx: Context, doc: str) -> bool:
            draft = await ctx.step("draft", write_draft, doc)
            answer = await ctx.wait_for_signal("approve", "reject", timeout="1d")
            return answer.name == "approve"

    A handler that waits gives its lease back. When the wait is over, it runs again from its beginning, and finished
    steps return their stored results at once. So put whatever must happen once into a step.
    """

    # Properties of the run.

    @property
    def execution_id(self) -> str:
        """The id of the run."""
        return self._session.task.execution_id

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 0."""
        return self._session.task.attempt_index

    @property
    def tags(self) -> dict[str, str]:
        """The tags of the run."""
        return self._session.task.tags

    @property
    def fence(self) -> str:
        """A fencing token that grows with every holder of this run; other systems can refuse older ones."""
        return self._session.facts.fence

    @property
    def deadline(self) -> datetime | None:
        """When this attempt or the whole run times out, by the store's clock; None if never."""
        return self._session.facts.deadline

    @property
    def cancelled(self) -> asyncio.Event:
        """Set when the run has been cancelled."""
        return self._session.cancelled

    @property
    def lost(self) -> asyncio.Event:
        """Set when the lease is gone, for whatever reason: the handler must change nothing more."""
        return self._session.lost

    @property
    def task(self) -> ClaimedTask:
        """The claimed task, for operations that the context does not offer."""
        return self._session.task

    @property
    def log(self) -> Log:
        """A logger that adds the ids of this run to every record."""
        return self._session.log

    # Steps and children: see also `DurableCalls`.

    def options(self, **options: Unpack[SubmitOptions]) -> WithOptions:
        """Call a step or submit a child with options: those of `@app.task`, and for children those of `app.options`.

        ::

            careful = ctx.options(retries=3, backoff="1s", timeout="30s", retry_on=ConnectionError)
            draft = await careful.step("draft", write_draft, doc)
            child = await ctx.options(delay="1h").submit(resize, "a.png")

        A step takes `retries`, `backoff`, `retry_on` and `timeout`. Its tries happen within this attempt, while the
        lease is held, and each failed try is logged. `timeout` limits each try: the function is cancelled, in a thread
        at its next Python instruction. The error of the last try is raised, a `StepTimeout` if it took too long; if the
        handler does not catch it, the attempt fails, and the retries of the task apply.
        """
        return WithOptions(self._session, options_of(options))

    # Waits.

    async def sleep(self, duration: Duration) -> None:
        """Give the lease back, and continue after some time: `await ctx.sleep("30d")`.

        No worker is occupied meanwhile, and none has to live that long.
        """
        await self._session.waits.sleep(duration)

    @overload
    async def wait_for_signal(
        self,
        *names: str,
        count: None = None,
        distinct: bool = False,
        timeout: Duration | None = None,  # noqa: ASYNC109
        name: str = "",
        waitpoint: Waitpoint | None = None,
        message: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> Signal: ...

    @overload
    async def wait_for_signal(
        self,
        *names: str,
        count: Count,
        distinct: bool = False,
        timeout: Duration | None = None,  # noqa: ASYNC109
        name: str = "",
        waitpoint: Waitpoint | None = None,
        message: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> list[Signal]: ...

    async def wait_for_signal(
        self,
        *names: str,
        count: Count | None = None,
        distinct: bool = False,
        timeout: Duration | None = None,  # noqa: ASYNC109 - of the suspension, which lives in the store
        name: str = "",
        waitpoint: Waitpoint | None = None,
        message: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> Signal | list[Signal]:
        """Give the lease back until a signal with one of the names arrives; with `count`, until several do.

        ::

            answer = await ctx.wait_for_signal("approve", "reject", timeout="1d")
            votes = await ctx.wait_for_signal("go", count=2, distinct=True)

        `count` is a number, `"all"` for each of the names, or `"any"`; the result is then a list. `distinct` counts
        each source once, as in two approvals from two people. Raises `WaitTimeout` after `timeout`. `name` names the
        wait, and the waitpoint that signals are sent to; `waitpoint` is one that was created earlier. `message` and
        `details` are shown to whoever is asked: on approval pages, in the inbox and by `ff waitpoints`.
        """
        return await self._session.waits.wait_for_signal(
            names,
            count,
            distinct=distinct,
            timeout=timeout,
            name=name,
            waitpoint=waitpoint,
            message=message,
            details=details,
        )

    async def create_waitpoint(
        self,
        key: str,
        expires: Duration = "1d",
        *,
        message: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> Waitpoint:
        """Open a waitpoint, once in each attempt, so that its token can be sent out before the handler waits on it.

        ::

            waitpoint = await ctx.create_waitpoint("approval")
            await ctx.step("mail", send_mail, waitpoint.id, waitpoint.token)
            answer = await ctx.wait_for_signal("approve", waitpoint=waitpoint)

        Send the token inside a step. It is a secret: it is not stored with the step, but read again whenever the
        handler runs, and it is empty once the waitpoint is closed. `message` and `details` are as in
        `wait_for_signal`.
        """
        return await self._session.waits.create_waitpoint(key, expires, message=message, details=details)

    async def approval_link(
        self, waitpoint: Waitpoint, *signal_names: str, expires: Duration = "1d", to: str = ""
    ) -> str:
        """Make a link to a page of the server on which whoever opens it can send one of the signals, once.

        ::

            link = await ctx.approval_link(waitpoint, "approve", "reject", expires="7d", to="ann@example.com")

        The page shows the `message` and `details` of the waitpoint, a button for each signal, and a field for a
        comment, which arrives as the payload `{"comment": …}`. `answer.source` is `to`, or else the name that the
        visitor gives. Send the link inside a step. It is a secret, so it is not stored, but every run of the handler
        makes the same link.
        """
        return await self._session.waits.approval_link(waitpoint, signal_names, expires, to)

    # Stream and progress.

    async def emit(
        self,
        frame_type: str,
        payload: Any,
        *,
        best_effort: bool = False,
        correlation_id: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Append a frame to the stream of this attempt: `await ctx.emit("token", "once")`.

        The payload is text, bytes, or any value as JSON. Frames keep their order and are sent in batches, so this
        returns before the frame is stored; `flush` waits for that. A `best_effort` frame may be dropped when there are
        too many.

        A frame records the step in which it was emitted. When the handler runs again, the frames that it emitted
        outside its stored steps are superseded, and readers of the stream are notified.
        """
        await self._session.stream.emit(
            frame_type, payload, best_effort=best_effort, correlation_id=correlation_id, metadata=metadata
        )

    async def summary(self, patch: Mapping[str, Any]) -> None:
        """Merge a patch into the summary document of this attempt (JSON Merge Patch: null deletes)."""
        await self._session.stream.summary(patch)

    async def flush(self) -> None:
        """Wait until every frame is stored, as happens before a step is stored and before the handler ends or waits."""
        await self._session.stream.flush()

    async def progress(self, pct: int | None = None, message: str | None = None) -> None:
        """Report the progress of the work, from 0 to 100, and what it is doing."""
        await stop_if_lost(self._session.task.update_progress(pct, message))
