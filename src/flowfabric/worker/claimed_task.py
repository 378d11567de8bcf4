"""A claimed task, for worker loops of your own and for the runtime."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from flowfabric.codecs import Duration, millis
from flowfabric.engine import tail_when_ready
from flowfabric.model.command import HolderCommand, Question
from flowfabric.model.conditions import Condition, referenced_keys
from flowfabric.model.errors import FlowFabricError, refuse
from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.finish import (
    Cancel,
    Cancelled,
    Complete,
    Completed,
    Delay,
    Delayed,
    Fail,
    Moved,
    RetryScheduled,
    TerminalFailed,
    WaitChildren,
)
from flowfabric.model.operations.lease import Release, Released, Renewed, UpdateProgress
from flowfabric.model.operations.signal import ObserveSignals
from flowfabric.model.operations.step import PutStep, StepExisting, StepStored
from flowfabric.model.operations.stream import (
    Appended,
    AppendFrames,
    FrameInput,
    ReadStream,
    StreamPage,
    TailStream,
)
from flowfabric.model.operations.suspend import Binding, SatisfiedAtOnce, Suspend, Suspended
from flowfabric.model.operations.suspend_waitpoint import CreateWaitpoint, OpenWaitpoint, ReadToken
from flowfabric.model.views import SignalView
from flowfabric.storage.minting import new_uuid
from flowfabric.worker.faults import TaskConsumed, is_loss
from flowfabric.worker.leases.worker_lease import WorkerLease
from flowfabric.worker.outbox import is_transient

if TYPE_CHECKING:
    from flowfabric.worker.worker import Worker

log = logging.getLogger("flowfabric.worker")

R = TypeVar("R")


class ClaimedTask:
    """A task that this process holds. Its lease is renewed until the task is ended, given back or dropped.

    ::

        async with await Worker.open("work.db", WorkerSettings(lanes=("default",))) as worker:
            for task in await worker.claim(wait="20s"):
                await task.complete(task.input_payload.upper())

    Operations that end the task or give it back consume it: any further use raises `TaskConsumed`. If only the
    transport failed, the task stays usable and its lease is renewed, so that the call can be repeated.
    """

    __slots__ = ("__weakref__", "_consumed", "hold", "task", "worker")

    def __init__(self, worker: Worker, task: Task, hold: WorkerLease) -> None:
        self.worker = worker
        self.task = task
        """The task as the store returned it."""
        self.hold = hold
        self._consumed = ""

    def __repr__(self) -> str:
        return f"ClaimedTask({self.task.execution_id!r}, {self.task.execution_kind!r}{self._consumed and ', consumed'})"

    def __del__(self) -> None:
        if not self._consumed and not self.worker.closed:
            log.warning("task %s was dropped without an end: its lease will expire", self.task.execution_id)
            self.let_go("dropped")

    # Properties.

    @property
    def execution_id(self) -> str:
        """The id of the execution."""
        return self.task.execution_id

    @property
    def execution_kind(self) -> str:
        """The kind of the execution."""
        return self.task.execution_kind

    @property
    def attempt_index(self) -> int:
        """The number of the attempt, from 0."""
        return self.task.attempt_index

    @property
    def attempt_id(self) -> str:
        """The id of the attempt."""
        return self.task.attempt_id

    @property
    def lease_id(self) -> str:
        """The id of the lease."""
        return self.task.fence.lease_id

    @property
    def lease_epoch(self) -> int:
        """The fencing number, which grows with every lease of the execution."""
        return self.task.fence.lease_epoch

    @property
    def input_payload(self) -> bytes:
        """The input as it was submitted."""
        return self.task.input

    @property
    def tags(self) -> dict[str, str]:
        """The tags of the execution."""
        return dict(self.task.tags)

    @property
    def lane_id(self) -> str:
        """The lane of the execution."""
        return self.task.lane_id

    @property
    def consumed(self) -> bool:
        """Whether the task was ended or given back."""
        return bool(self._consumed)

    @property
    def is_lease_healthy(self) -> bool:
        """Whether the lease is held: False after a refusal, after three failed renewals, or once it has expired."""
        return self.hold.healthy

    @property
    def consecutive_renewal_failures(self) -> int:
        """How many renewals in a row have failed; a success resets it to 0."""
        return self.hold.failures

    # Operations that consume the task.

    async def complete(self, result: bytes | None = None, encoding: str = "") -> Completed:
        """Complete the execution."""
        return await self.end(self._of(Complete, result=result, result_encoding=encoding))

    async def fail(
        self, reason: str, category: str = "error", detail: str = "", retry_after: Duration | None = None
    ) -> RetryScheduled | TerminalFailed:
        """Fail this attempt; the retry policy decides whether another follows."""
        after = None if retry_after is None else millis(retry_after, "retry_after")
        return await self.end(
            self._of(Fail, reason=reason, category=category, detail=detail, retry_after_ms=after)
        )

    async def cancel(self, reason: str = "") -> Cancelled:
        """Cancel the execution."""
        return await self.end(self._of(Cancel, reason=reason))

    async def release(self, reason: str = "") -> Released:
        """Give the task back unfinished; it can be claimed at once."""
        return await self.end(self._of(Release, reason=reason))

    async def delay_execution(self, until: int) -> Delayed:
        """Give the task back until a time (milliseconds since 1970, by the store's clock)."""
        return await self.end(self._of(Delay, delay_until=until))

    async def move_to_waiting_children(self) -> Moved:
        """Give the task back until its children have ended."""
        return await self.end(self._of(WaitChildren))

    async def suspend(self, condition: Condition, **options: Any) -> Suspended:
        """Suspend until signals arrive. The task is consumed even if buffered signals satisfy the condition already."""
        outcome = await self.try_suspend(condition, **options)
        if isinstance(outcome, Suspended):
            return outcome
        self.let_go("already satisfied")
        raise TaskConsumed(
            "buffered signals satisfied it already, and the task is lost; use try_suspend, which keeps it"
        )

    async def try_suspend(
        self,
        condition: Condition,
        *,
        pending: OpenWaitpoint | None = None,
        timeout: Duration | None = None,  # noqa: ASYNC109 - of the suspension, which lives in the store
        **options: Any,
    ) -> Suspended | SatisfiedAtOnce:
        """Suspend until signals arrive. If buffered signals satisfy the condition already, the task stays usable.

        `pending` is a waitpoint that was created earlier. Further options are fields of `Suspend`.
        """
        suspension = new_uuid()
        suspend = self._of(
            Suspend,
            suspension_id=suspension,
            waitpoints=_bindings(condition, pending),
            condition=condition,
            timeout_ms=None if timeout is None else millis(timeout, "timeout"),
            **{"idempotency_key": suspension, **options},
        )
        return await self.end(suspend, keeps=SatisfiedAtOnce)

    async def try_suspend_on_pending(
        self, pending: OpenWaitpoint, condition: Condition, **options: Any
    ) -> Suspended | SatisfiedAtOnce:
        """Suspend as `try_suspend` does, on a waitpoint of `create_pending_waitpoint`."""
        return await self.try_suspend(condition, pending=pending, **options)

    # Operations that keep the task.

    async def renew_lease(self) -> Renewed:
        """Renew the lease now; a thread also renews it regularly."""
        return await self.send(self.hold.renewal())

    async def update_progress(self, pct: int | None = None, message: str | None = None) -> None:
        """Report the progress of the work."""
        await self.send(self._of(UpdateProgress, pct=pct, message=message))

    async def put_step(
        self, name: str, result: bytes, encoding: str = "json", call_index: int | None = None
    ) -> StepStored | StepExisting:
        """Store the result of a step, unless one is stored already."""
        return await self.send(
            self._of(PutStep, step_name=name, result=result, encoding=encoding, call_index=call_index)
        )

    async def create_pending_waitpoint(
        self,
        key: str,
        expires_in: Duration = "1d",
        waitpoint_id: str = "",
        *,
        message: str = "",
        details: str = "",
    ) -> OpenWaitpoint:
        """Open a waitpoint before the suspension that will use it, so that its token can be sent out first."""
        command = self._of(
            CreateWaitpoint,
            waitpoint_id=waitpoint_id or new_uuid(),
            waitpoint_key=key,
            expires_in_ms=millis(expires_in, "expires_in"),
            message=message,
            details=details,
        )
        try:
            return (await self.send(command)).waitpoint
        except FlowFabricError as error:
            if error.code != "waitpoint_already_exists":
                raise
        # An earlier answer was lost.
        token = await self.ask(ReadToken(execution_id=self.execution_id, waitpoint_id=command.waitpoint_id))
        return OpenWaitpoint(command.waitpoint_id, key, token or "")

    async def append_frames(self, frames: Iterable[FrameInput]) -> tuple[Appended, ...]:
        """Append frames to the stream of this attempt, all or none."""
        return await self.send(self._of(AppendFrames, frames=tuple(frames)), repeat=False)

    async def append_frame(
        self,
        frame_type: str,
        payload: bytes,
        correlation_id: str = "",
        *,
        mode: str = "durable",
        **fields: Any,
    ) -> Appended:
        """Append one frame, durable unless `mode` says otherwise. Further fields are those of `FrameInput`."""
        frame = FrameInput(
            payload=payload, frame_type=frame_type, correlation_id=correlation_id, mode=mode, **fields
        )
        (appended,) = await self.append_frames([frame])
        return appended

    async def read_stream(
        self, from_: str = "start", to: str = "end", limit: int = 50, *, exclude_best_effort: bool = False
    ) -> StreamPage:
        """Read frames of this attempt, both ends included."""
        return await self.ask(
            ReadStream(
                execution_id=self.execution_id,
                attempt_index=self.attempt_index,
                from_=from_,
                to=to,
                count=limit,
                exclude_best_effort=exclude_best_effort,
            )
        )

    async def tail_stream(
        self, after: str = "0-0", block: Duration = 0, limit: int = 50, *, exclude_best_effort: bool = False
    ) -> StreamPage:
        """Read the frames after a cursor; if there are none, wait up to `block` for one."""
        self._check()
        question = TailStream(
            execution_id=self.execution_id,
            attempt_index=self.attempt_index,
            after=after,
            count=limit,
            exclude_best_effort=exclude_best_effort,
        )
        return await tail_when_ready(self.worker.store, question, millis(block, "block"))

    async def report_usage(
        self, budget_id: str, amounts: Iterable[tuple[str, int]], dedup_key: str = ""
    ) -> None:
        """Report the usage of a budget. There are no budgets yet, so every id is refused as `budget_not_found`."""
        self._check()
        _ = amounts, dedup_key
        text = f"no budget is called {budget_id!r}: budgets come with a later version"
        raise refuse("budget_not_found", text=text, field="budget_id")

    async def resume_signals(self) -> tuple[SignalView, ...]:
        """Return the signals that ended the last suspension of this attempt."""
        self._check()
        if self.task.resume is not None:
            return self.task.resume_signals
        return await self.ask(ObserveSignals(execution_id=self.execution_id))

    # Sending.

    async def ask(self, question: Question[R]) -> R:
        """Ask the store a question, and retry while the transport fails and the lease lives."""
        self._check()
        return await self.worker.outbox.ask(question, self.hold)

    async def send(self, command: HolderCommand[R], *, repeat: bool = True) -> R:
        """Send a command of the holder, and retry while the transport fails and the lease lives."""
        self._check()
        try:
            if repeat:
                return await self.worker.outbox.send(command, self.hold)
            return await self.worker.outbox.post(command)
        except FlowFabricError as error:
            if is_loss(error):
                self.hold.lose(error)
            raise

    async def end(self, command: HolderCommand[R], *, keeps: type | None = None, repeat: bool = False) -> R:
        """Send a command that ends the task. Only an answer of the store consumes it; until then it is renewed."""
        self._check()
        try:
            if repeat:
                reply = await self.worker.outbox.send(command, self.hold)
            else:
                reply = await self.worker.outbox.post(command)
        except FlowFabricError as error:
            if not is_transient(error):
                self.let_go(type(command).__name__)
            raise
        if keeps is None or not isinstance(reply, keeps):
            self.let_go(type(command).__name__)
        return reply

    def _of(self, kind: Callable[..., R], **fields: Any) -> R:
        return kind(execution_id=self.task.execution_id, fence=self.task.fence, **fields)

    def _check(self) -> None:
        if self._consumed:
            raise TaskConsumed(f"{self.execution_id} was consumed by {self._consumed}; claim another task")

    def let_go(self, by: str) -> None:
        """Consume the task without a command: stop renewing its lease and return its permit, once."""
        if not self._consumed:
            self._consumed = by
            self.worker.let_go(self.hold)


def _bindings(condition: Condition, pending: OpenWaitpoint | None) -> tuple[Binding, ...]:
    """Return the pending waitpoint, or a new one for each key that the condition names."""
    if pending is not None:
        return (Binding(pending.waitpoint_id, pending.waitpoint_key, pending=True),)
    keys = referenced_keys(condition) or ("default",)
    return tuple(Binding(new_uuid(), key) for key in keys)
