"""The handle of one run, in any process that knows its id."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from flowfabric.app.errors import ResultExpired, TaskCancelled, TaskExpired, TaskFailed, TaskSkipped
from flowfabric.app.execution_ids import is_whole, resolve_execution
from flowfabric.app.retrying import log, retry_while_away
from flowfabric.app.signals import send_signal
from flowfabric.app.stream import follow
from flowfabric.app.views import (
    AttemptStarted,
    Explanation,
    Frame,
    Status,
    Superseded,
    explanation_of,
    status_of,
)
from flowfabric.codecs import JSON, Codec, DecodeFault, Duration, decode_value, seconds
from flowfabric.engine import wait_until_ended
from flowfabric.model.command import OPERATOR_OVERRIDE
from flowfabric.model.errors import ExecutionNotActive, NotFound, invalid
from flowfabric.model.ids import SHORTEST_PREFIX
from flowfabric.model.operations.finish import Cancel
from flowfabric.model.operations.operate import Replay
from flowfabric.model.operations.read import (
    Describe,
    Description,
    GetExecution,
    GetResult,
    ListAttempts,
    ReadHistory,
)
from flowfabric.model.records import Event, Execution
from flowfabric.model.state import TERMINAL_STATES, Public
from flowfabric.storage.base import Commands

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)

PATIENCE_SECONDS: Final = 2.0
"""A caller that waits longer than this for a result finds the reason in the log."""
LONGEST_SECONDS: Final = 20.0

OpenStore = Callable[[], Awaitable[Commands]]

_ENDS: Final = {
    Public.CANCELLED: TaskCancelled,
    Public.EXPIRED: TaskExpired,
    Public.SKIPPED: TaskSkipped,
}


_WORDS: Final = {"success": "completed"}
"""Outcomes whose public state has another name."""


@dataclass(frozen=True, slots=True)
class StoreHandle:
    """How a run opens its store, and decodes its values."""

    open: OpenStore
    codec: Codec = JSON
    patience: float = PATIENCE_SECONDS


class Run(Generic[R_co]):
    """One run of a task.

    ::

        run = await app.submit(review, "text")
        print(run.id, await run.status())
        print(await run.result(timeout="1m"))
    """

    def __init__(
        self,
        home: StoreHandle,
        execution_id: str,
        returns: Any = Any,
        *,
        codec: Codec | None = None,
        duplicate: bool = False,
    ) -> None:
        self.id = execution_id
        """The id, for `app.run(id)` and `ff inspect ID`. A shortened id is completed on first use."""
        self.duplicate = duplicate
        """True if the submission found an existing run with the same key."""
        self._home = home
        self._returns = returns
        self._codec = codec or home.codec

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other.id == self.id

    def __hash__(self) -> int:
        # Only the part that every spelling shares: a shortened id is completed on first use.
        return hash(self.id.rpartition(":")[2][:SHORTEST_PREFIX].lower())

    async def result(self, timeout: Duration | None = None) -> R_co:  # noqa: ASYNC109 - waiting is the purpose
        """Wait until the run has ended, and return the result of its task.

        Raises `TaskFailed`, or its subclasses `TaskCancelled` and `TaskExpired`, if the run did not complete;
        `TimeoutError` if it has not ended in time, which does not affect the run; and `ResultExpired` if the run is no
        longer kept. If the run makes no progress for two seconds, the log says why.
        """
        run = await self._ended(None if timeout is None else seconds(timeout, "timeout"))
        if run.public_state is not Public.COMPLETED:
            raise await self._failure(run)
        store = await self._open()
        view = await self._kept(lambda: store.read(GetResult(execution_id=self.id)))
        if view.result is None:
            return None  # type: ignore[return-value] # completed without a result: the task's type says None
        try:
            found: R_co = decode_value(view.result.data, view.result.encoding, self._returns, self._codec)
        except DecodeFault as fault:
            problem = f"{fault.text}; read it untyped: app.run({self.id!r})"
            raise invalid(f"result{fault.path and '.'}{fault.path}", problem) from fault
        return found

    async def status(self) -> Status:
        """Return the current status; raises `NotFound` if there is no such run, or no longer."""
        store = await self._open()
        return status_of(await store.read(GetExecution(execution_id=self.id)))

    async def explain(self) -> Explanation:
        """Return why the run makes no progress; `print` shows one line."""
        store = await self._open()
        return explanation_of(await store.read(Describe(execution_id=self.id)))

    async def history(self) -> list[Event]:
        """Return every event of the run, in order; each has `event`, `at` and what it changed."""
        store = await self._open()
        events: list[Event] = []
        more = True
        while more:
            after = events[-1].seq if events else 0
            page = await store.read(ReadHistory(execution_id=self.id, after=after, limit=1_000))
            events += page.events
            more = bool(page.next)
        return events

    async def cancel(self, reason: str = "") -> None:
        """Cancel the run in any state. A running handler is interrupted, and its result is refused.

        Raises `Conflict` if the run has ended already.
        """
        store = await self._open()
        try:
            await store.apply(Cancel(execution_id=self.id, source=OPERATOR_OVERRIDE, reason=reason))
        except ExecutionNotActive as error:
            ended = _WORDS.get(error.details[0], error.details[0]) if error.details else "it is over"
            text = f"there is nothing to cancel: the run has ended ({ended})"
            raise ExecutionNotActive(text, details=error.details) from error

    async def signal(
        self,
        name: str,
        payload: Any = None,
        *,
        waitpoint: str = "",
        token: str = "",
        by: str = "",
        key: str = "",
        within: Duration = 0,
    ) -> None:
        """Send a signal to the run.

        ::

            await run.signal("paid", {"amount": 20}, by="bank", within="10s")

        The signal goes to the open waitpoint that takes its name; if several do, `waitpoint` selects one. With the
        `token` of the waitpoint it is sent as an outsider, without it as an operator. `by` identifies the sender. Of
        two signals with the same `key` only the first counts. `within` is how long to wait for the run to wait for the
        signal. Raises `NothingWaits` if it does not; the message says what it waits for.
        """
        store = await self._open()
        await send_signal(
            store,
            self.id,
            name,
            payload,
            waitpoint=waitpoint,
            token=token,
            by=by,
            key=key,
            within=seconds(within, "within"),
            codec=self._home.codec,
        )

    async def approve(
        self, payload: Any = None, *, by: str = "", waitpoint: str = "", within: Duration = 0
    ) -> None:
        """Send the signal `approve`, as `signal` does. A second approval `by` the same person is ignored."""
        await self.signal("approve", payload, by=by, key=by, waitpoint=waitpoint, within=within)

    async def reject(
        self, payload: Any = None, *, by: str = "", waitpoint: str = "", within: Duration = 0
    ) -> None:
        """Send the signal `reject`, as `signal` does. A second rejection `by` the same person is ignored."""
        await self.signal("reject", payload, by=by, key=by, waitpoint=waitpoint, within=within)

    async def stream(
        self, after: str = "", *, include_superseded: bool = False
    ) -> AsyncGenerator[Frame | AttemptStarted | Superseded]:
        """Yield what the run emits, from the beginning or after a position, until the run has ended.

        ::

            shown: list[Frame] = []
            async for item in run.stream():
                if isinstance(item, Frame):
                    shown.append(item)
                elif isinstance(item, Superseded):     # the handler runs again, and emits again
                    shown = [frame for frame in shown if not item.covers(frame)]

        Frames that are already superseded when they are read are left out, unless `include_superseded` is set. A reader
        that was disconnected continues after the `position` of the last item that it received.
        """
        items = follow(await self._open(), self.id, after, include_superseded=include_superseded)
        async with aclosing(items):
            async for item in items:
                yield item

    async def replay(self, *, keep_steps: bool = False, from_step: str = "", reason: str = "") -> None:
        """Run an ended run again, from its beginning or with the results of its stored steps.

        `keep_steps` keeps the results of all steps, `from_step` those of the steps before it. Raises `Conflict` if the
        run has not ended.
        """
        store = await self._open()
        await store.apply(
            Replay(execution_id=self.id, keep_steps=keep_steps, from_step=from_step, reason=reason)
        )

    async def _open(self) -> Commands:
        """Return the store; complete a shortened id on first use."""
        store = await self._home.open()
        if not is_whole(self.id):
            self.id = await resolve_execution(store, self.id)
        return store

    async def _ended(self, limit: float | None) -> Execution:
        """Wait until the run has ended; log the reason if it makes no progress."""
        clock = asyncio.get_running_loop().time
        end = None if limit is None else clock() + limit
        pause, said = self._home.patience, ""
        while True:
            left = pause if end is None else max(0.0, min(pause, end - clock()))
            run = await self._wait(left, end)
            if run.public_state in TERMINAL_STATES:
                return run
            described = await self._describe()
            if described.run.public_state in TERMINAL_STATES:
                return described.run
            why = explanation_of(described)
            if end is not None and clock() >= end:
                raise TimeoutError(f"no result within {limit:g} s: {why}")
            if why.because and str(why) != said:  # a running handler has no reason
                said = str(why)
                log.warning("still waiting for the result: %s", why)
            pause = min(pause * 2, LONGEST_SECONDS)

    async def _wait(self, wait: float, end: float | None) -> Execution:
        store = await self._open()
        waiting = self._kept(lambda: wait_until_ended(store, self.id, round(wait * 1_000)))
        if end is None:
            return await waiting
        try:  # an unreachable store must not delay a caller with a timeout
            return await asyncio.wait_for(waiting, wait + PATIENCE_SECONDS)
        except TimeoutError as error:
            raise TimeoutError(f"{self.id}: no result in time, because the store does not answer") from error

    async def _describe(self) -> Description:
        store = await self._open()
        return await self._kept(lambda: store.read(Describe(execution_id=self.id)))

    async def _kept(self, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            return await retry_while_away(ask)
        except NotFound as error:
            raise ResultExpired(f"{ResultExpired.message} ({self.id})") from error

    async def _failure(self, run: Execution) -> TaskFailed:
        store = await self._open()
        attempts = await self._kept(lambda: store.read(ListAttempts(execution_id=self.id)))
        last = attempts[-1] if attempts else run.attempt
        reason = run.failure_reason or run.cancellation_reason
        kind = _ENDS.get(run.public_state, TaskFailed)
        return kind(self.id, reason, run.failure_category, last.failure_detail)
