"""Suspending, signalling and refusing, in few words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from flowfabric.model.command import Command, Question
from flowfabric.model.condition_json import parse_condition
from flowfabric.model.conditions import Condition, list_condition, referenced_keys
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.lease import Release
from flowfabric.model.operations.signal import DeliverSignal, SignalAccepted
from flowfabric.model.operations.suspend import Binding, Suspend, Suspended
from flowfabric.model.operations.suspend_resume import GetSuspension, ResumeExecution
from flowfabric.model.operations.suspend_waitpoint import (
    CreateWaitpoint,
    ListWaitpoints,
    OpenWaitpoint,
    WaitpointView,
)
from flowfabric.model.records import Suspension, Waitpoint
from support.driver import Driver, new_uuid

SATISFIED = "resume_condition_satisfied"
APPENDED = "appended_to_waitpoint"
NO_OP = "no_op"
REPEATED = "appended_to_waitpoint_duplicate"
NOT_IN_CONDITION = "signal_ignored_not_in_condition"
MATCHER_FAILED = "signal_ignored_matcher_failed"
BUFFERED = "buffered_for_pending_waitpoint"

HELD = ("active", "leased", "not_applicable", "none", "none", "running_attempt", "active")
RESUMED = (
    "runnable",
    "unowned",
    "eligible_now",
    "waiting_for_worker",
    "none",
    "attempt_interrupted",
    "waiting",
)
RESUMED_LATER = (
    "runnable",
    "unowned",
    "not_eligible_until_time",
    "waiting_for_resume_delay",
    "none",
    "attempt_interrupted",
    "delayed",
)

SAVED_WITH_REFUSAL = {"lease_expired", "max_retries_exhausted", "claim_grant_expired"}
"""Refusals that record what they found out; all others must leave the store as it was."""


def held(blocking: str) -> tuple[str, ...]:
    """The vector of a suspended execution."""
    return ("suspended", "unowned", "not_applicable", blocking, "none", "attempt_interrupted", "suspended")


def ended(outcome: str, attempt: str = "attempt_terminal") -> tuple[str, ...]:
    """The vector of an ended execution."""
    public = "completed" if outcome == "success" else outcome
    return ("terminal", "unowned", "not_applicable", "none", outcome, attempt, public)


async def refused(ff: Driver, command: Command[Any], code: str) -> FlowFabricError:
    """Expect a refusal that changes nothing, and return it."""
    before = await ff.store.dump()
    with pytest.raises(FlowFabricError) as caught:
        await ff.store.apply(command)
    assert caught.value.code == code, repr(caught.value)
    if code not in SAVED_WITH_REFUSAL:
        assert await ff.store.dump() == before
    return caught.value


async def unanswered(ff: Driver, question: Question[Any], code: str) -> FlowFabricError:
    """Expect that a question is refused, and return the refusal."""
    with pytest.raises(FlowFabricError) as caught:
        await ff.store.read(question)
    assert caught.value.code == code, repr(caught.value)
    return caught.value


def by_name(key: str, name: str) -> dict[str, Any]:
    """A leaf that waits for one signal name on one waitpoint."""
    return {"kind": "Single", "waitpoint_key": key, "matcher": {"kind": "ByName", "name": name}}


def any_on(key: str) -> dict[str, Any]:
    """A leaf that takes every signal of one waitpoint."""
    return {"kind": "Single", "waitpoint_key": key, "matcher": {"kind": "Wildcard"}}


def all_of(*members: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "AllOf", "members": list(members)}


def count(n: int, kind: str, *keys: str, name: str = "") -> dict[str, Any]:
    """A node that counts `Signals`, `Sources` or `Waitpoints`."""
    matcher = {"kind": "ByName", "name": name} if name else None
    return {
        "kind": "Count",
        "n": n,
        "count_kind": f"Distinct{kind}",
        "matcher": matcher,
        "waitpoints": list(keys),
    }


def tree(root: dict[str, Any], **fields: Any) -> Condition:
    return parse_condition({"v": 1, "composite": True, "tree": root, **fields})


def fresh(*keys: str) -> tuple[Binding, ...]:
    """New waitpoints with these keys."""
    return tuple(Binding(new_uuid(), key) for key in keys)


def pending(waitpoint: OpenWaitpoint) -> tuple[Binding, ...]:
    """The waitpoint that was opened before."""
    return (Binding(waitpoint.waitpoint_id, pending=True),)


def suspension(task: Task, condition: Condition | None = None, **fields: Any) -> Suspend:
    """Suspend on a fresh waitpoint for each key that the condition names; default: wait for signal `go`."""
    condition = condition or list_condition(("go",))
    fields.setdefault("waitpoints", fresh(*(referenced_keys(condition) or ("k0",))))
    fields.setdefault("suspension_id", new_uuid())
    fields.setdefault("fence", task.fence)
    return Suspend(execution_id=task.execution_id, condition=condition, **fields)


def delivery(execution_id: str, waitpoint: OpenWaitpoint, name: str = "go", **fields: Any) -> DeliverSignal:
    fields = {
        "execution_id": execution_id,
        "waitpoint_id": waitpoint.waitpoint_id,
        "waitpoint_token": waitpoint.waitpoint_token,
        "signal_id": new_uuid(),
    } | fields
    return DeliverSignal(signal_name=name, **fields)


@dataclass(frozen=True)
class Wait:
    """A suspended execution, and what outsiders do to it."""

    ff: Driver
    task: Task
    answer: Suspended

    @property
    def execution_id(self) -> str:
        return self.task.execution_id

    @property
    def waitpoint(self) -> OpenWaitpoint:
        return self.answer.waitpoint

    def on(self, key: str) -> OpenWaitpoint:
        """The waitpoint of that key."""
        everything = (self.answer.waitpoint, *self.answer.additional_waitpoints)
        return next(waitpoint for waitpoint in everything if waitpoint.waitpoint_key == key)

    def delivery(self, name: str = "go", key: str = "", **fields: Any) -> DeliverSignal:
        return delivery(self.execution_id, self.on(key) if key else self.waitpoint, name, **fields)

    async def signal(self, name: str = "go", key: str = "", **fields: Any) -> str:
        """Deliver a signal that must be accepted; return its effect."""
        return await accepted(self.ff, self.delivery(name, key, **fields))

    async def resume(self, **fields: Any) -> str:
        """Resume as an operator; return the public state."""
        command = ResumeExecution(execution_id=self.execution_id, **fields)
        return str((await self.ff.store.apply(command)).public_state)

    async def vector(self) -> tuple[str, ...]:
        return await self.ff.vector(self.execution_id)

    async def record(self) -> Suspension:
        return await suspension_record(self.ff, self.execution_id)


async def accepted(ff: Driver, command: DeliverSignal) -> str:
    """Deliver a signal that must be accepted; return its effect."""
    answer = await ff.store.apply(command)
    assert isinstance(answer, SignalAccepted)
    assert answer.signal_id == command.signal_id
    return answer.effect


async def suspend(ff: Driver, task: Task, condition: Condition | None = None, **fields: Any) -> Wait:
    """Suspend what a worker holds."""
    answer = await ff.store.apply(suspension(task, condition, **fields))
    assert isinstance(answer, Suspended)
    return Wait(ff, task, answer)


async def suspended(
    ff: Driver,
    condition: Condition | None = None,
    *,
    create: dict[str, Any] | None = None,
    seed: bool = True,
    **fields: Any,
) -> Wait:
    """Seed, create, claim and suspend one execution."""
    if seed:
        await ff.seed()
    return await suspend(ff, await ff.running(**(create or {})), condition, **fields)


async def suspension_record(ff: Driver, execution_id: str) -> Suspension:
    record = await ff.store.read(GetSuspension(execution_id=execution_id))
    assert record is not None
    return record


def opening(task: Task, key: str = "p0", expires_in_ms: int = 60_000, **fields: Any) -> CreateWaitpoint:
    fields.setdefault("waitpoint_id", new_uuid())
    fields.setdefault("fence", task.fence)
    return CreateWaitpoint(
        execution_id=task.execution_id, waitpoint_key=key, expires_in_ms=expires_in_ms, **fields
    )


async def open_pending(ff: Driver, task: Task, key: str = "p0", **fields: Any) -> OpenWaitpoint:
    """Open a waitpoint ahead of its suspension."""
    return (await ff.store.apply(opening(task, key, **fields))).waitpoint


async def open_waitpoints(ff: Driver, execution_id: str) -> tuple[WaitpointView, ...]:
    return (await ff.store.read(ListWaitpoints(execution_id=execution_id))).waitpoints


async def stored_waitpoint(ff: Driver, execution_id: str, waitpoint_id: str) -> Waitpoint:
    """The record itself, open or closed."""
    found = (await ff.store.dump()).records["waitpoint"][execution_id, waitpoint_id]
    assert isinstance(found, Waitpoint)
    return found


async def let_go(ff: Driver, task: Task) -> None:
    """Give the lease back, so that the next claim reclaims the work."""
    await ff.store.apply(Release(execution_id=task.execution_id, fence=task.fence))
