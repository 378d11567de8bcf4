"""Waiting without holding a worker: sleeps, signals, waitpoints and approval links."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from flowfabric.codecs import Codec, Duration, decode_value, millis
from flowfabric.model.conditions import Condition, timeout_only
from flowfabric.model.errors import NotOffered, invalid
from flowfabric.model.operations.access import LinkRequest
from flowfabric.model.operations.suspend import Binding, SatisfiedAtOnce, Suspend
from flowfabric.model.operations.suspend_waitpoint import ReadToken
from flowfabric.model.wait_result import unpack_wait
from flowfabric.storage.base import makes_links
from flowfabric.storage.minting import new_uuid
from flowfabric.worker.claimed_task import ClaimedTask
from flowfabric.worker.context.lease_guard import stop_if_lost
from flowfabric.worker.context.step_runner import StepRunner, untyped
from flowfabric.worker.context.stream import AttemptStream
from flowfabric.worker.context.suspension_gate import SuspensionGate
from flowfabric.worker.context.waits import Count, Signal, Waitpoint, condition_of, encode_details, signal_of
from flowfabric.worker.faults import HandlerSuspended, WaitTimeout
from flowfabric.worker.steps.journal import LINK, SLEEP, SLEEPING, WAIT, WAITPOINT, StepJournal


class WaitRunner:
    """Suspends the execution of one handler. The result of a wait is stored as a step."""

    def __init__(
        self,
        task: ClaimedTask,
        codec: Codec,
        journal: StepJournal,
        gate: SuspensionGate,
        stream: AttemptStream,
        steps: StepRunner,
    ) -> None:
        self._task = task
        self._codec = codec
        self._journal = journal
        self._gate = gate
        self._stream = stream
        self._steps = steps

    async def sleep(self, duration: Duration) -> None:
        """Suspend the execution for some time."""
        name, _ = self._journal.next_call(SLEEP)
        if await self._journal.find(name) is None:
            binding = Binding(new_uuid(), SLEEP)
            await self._suspend(name, timeout_only(), binding, millis(duration), reason_code=SLEEPING)

    async def wait_for_signal(
        self,
        names: tuple[str, ...],
        count: Count | None,
        *,
        distinct: bool,
        timeout: Duration | None,  # noqa: ASYNC109 - of the suspension, which lives in the store
        name: str,
        waitpoint: Waitpoint | None,
        message: str,
        details: Mapping[str, Any] | None,
    ) -> Signal | list[Signal]:
        """Suspend the execution until signals satisfy the condition, or return them if they have come already."""
        label = name or (waitpoint.key if waitpoint else "") or "|".join(names) or "signal"
        step, _ = self._journal.next_call(f"{WAIT}{label}")
        found = await self._journal.find(step)
        if found is not None:
            outcome = unpack_wait(found.result)
            if outcome.reason == "timeout":
                raise WaitTimeout(f"nobody sent {' or '.join(names) or 'a signal'} in time")
            return _answer([signal_of(stored.view()) for stored in outcome.signals], count)
        key = waitpoint.key if waitpoint else label
        condition = condition_of(names, count, distinct=distinct, key=key)
        binding = Binding(waitpoint.id, key, pending=True) if waitpoint else Binding(new_uuid(), key)
        after = None if timeout is None else millis(timeout, "timeout")
        satisfied = await self._suspend(
            step, condition, binding, after, message=message, details=encode_details(details)
        )
        return _answer([signal_of(view) for view in satisfied.resume_signals], count)

    async def _suspend(
        self,
        step: str,
        condition: Condition,
        binding: Binding,
        timeout_ms: int | None,
        reason_code: str = "waiting_for_signal",
        message: str = "",
        details: str = "",
    ) -> SatisfiedAtOnce:
        """Give the lease back and unwind the handler; return only if buffered signals satisfy the condition."""
        suspension = new_uuid()
        command = Suspend(
            execution_id=self._task.execution_id,
            fence=self._task.task.fence,
            suspension_id=suspension,
            idempotency_key=suspension,
            waitpoints=(binding,),
            condition=condition,
            reason_code=reason_code,
            timeout_ms=timeout_ms,
            timeout_behavior=None if timeout_ms is None else "auto_resume",
            step_name=step,
            message=message,
            details=details,
        )
        async with self._gate.suspension():
            await self._stream.flush()
            outcome = await stop_if_lost(self._task.end(command, keeps=SatisfiedAtOnce, repeat=True))
        if isinstance(outcome, SatisfiedAtOnce):
            return outcome
        raise HandlerSuspended(step)

    async def create_waitpoint(
        self, key: str, expires: Duration, *, message: str, details: Mapping[str, Any] | None
    ) -> Waitpoint:
        """Open a waitpoint, once in each attempt, and read its token."""
        name, position = self._journal.next_call(f"{WAITPOINT}{key}@{self._task.attempt_index}")
        id_ = str(uuid.uuid5(uuid.UUID(self._task.attempt_id), name))
        if await self._journal.find(name) is None:
            opened = await stop_if_lost(
                self._task.create_pending_waitpoint(
                    key, expires, waitpoint_id=id_, message=message, details=encode_details(details)
                )
            )
            await self._steps.keep(name, position, {"waitpoint_id": id_}, untyped)
            return Waitpoint(id_, key, opened.waitpoint_token)
        token = await self._task.ask(ReadToken(execution_id=self._task.execution_id, waitpoint_id=id_))
        return Waitpoint(id_, key, token or "")

    async def approval_link(
        self, waitpoint: Waitpoint, signal_names: tuple[str, ...], expires: Duration, to: str
    ) -> str:
        """Make an approval link. Its expiry is stored, so that every run of the handler makes the same link."""
        store = self._task.worker.store
        if not makes_links(store):
            raise NotOffered(
                "approval links are pages of a server: connect the worker to one (http://…), "
                "or send the waitpoint's id and token and deliver the signal yourself"
            )
        if not signal_names:
            raise invalid(
                "signal_names", 'name the signals to choose from: approval_link(waitpoint, "approve")'
            )
        name, position = self._journal.next_call(f"{LINK}{waitpoint.key}@{self._task.attempt_index}")
        found = await self._journal.find(name)
        until = 0 if found is None else decode_value(found.result, found.encoding, int, self._codec)
        link = LinkRequest(
            execution_id=self._task.execution_id,
            waitpoint_id=waitpoint.id,
            signal_names=signal_names,
            expires_at=until,
            expires_in_ms=0 if until else millis(expires, "expires"),
            source_identity=to,
            link_id=str(uuid.uuid5(uuid.UUID(waitpoint.id), name)),
        )
        made = await store.make_link(link)
        if not until:
            await self._steps.keep(name, position, made.expires_at, untyped)
        return made.url


def _answer(signals: list[Signal], count: Count | None) -> Signal | list[Signal]:
    if count is not None:
        return signals
    return signals[0] if signals else Signal("")
