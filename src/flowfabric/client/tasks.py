"""Tasks as the server shows them, read back into what a worker holds."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from flowfabric.client.payloads import NOTHING, take
from flowfabric.model.command import Fence
from flowfabric.model.operations.claim import Resume, Task
from flowfabric.model.operations.grant import ClaimedOne, claimed_one
from flowfabric.model.views import StepView
from flowfabric.model.wait_result import WaitSignal


class StepShape(Struct, frozen=True):
    """A stored step; its result is left out where there was no room."""

    call_index: int
    at: int
    encoding: str
    result: Raw = NOTHING
    result_base64: str | None = None
    name: str = ""

    def view(self, name: str) -> StepView:
        """Return it as the engine has it."""
        return StepView(name, self.call_index, self.at, self.encoding, take(self.result, self.result_base64))


class ResumeShape(Struct, frozen=True):
    """What ended the suspension that a claim resumes."""

    suspension_id: str
    reason: str
    step_name: str | None = None

    def view(self) -> Resume:
        """Return it as the engine has it."""
        return Resume(self.suspension_id, self.step_name or "", self.reason)


class TaskShape(Struct, frozen=True, kw_only=True):
    """A task."""

    execution_id: str
    execution_kind: str
    namespace: str
    lane_id: str
    flow_id: str | None
    priority: int
    attempt_index: int
    attempt_id: str
    attempt_type: str
    fence: Fence
    lease_expires_at: int
    attempt_deadline_at: int | None = None
    execution_deadline_at: int | None = None
    input: Raw = NOTHING
    input_base64: str | None = None
    payload_encoding: str | None = None
    tags: dict[str, str] = {}
    policy: Raw = NOTHING
    resume: ResumeShape | None = None
    resume_signals: tuple[WaitSignal, ...] = ()
    steps: dict[str, StepShape] = {}
    step_count: int = 0

    def task(self, worker_id: str, worker_instance_id: str) -> Task:
        """Return it as the engine has it."""
        policy = bytes(self.policy)
        resume = self.resume
        return Task(
            self.execution_id, self.execution_kind, self.namespace, self.lane_id, self.flow_id or "",
            self.priority, self.attempt_index, self.attempt_id, self.attempt_type, self.fence,
            self.lease_expires_at, take(self.input, self.input_base64), self.payload_encoding or "",
            tuple(sorted(self.tags.items())), b"" if policy == b"null" else policy, worker_id,
            worker_instance_id,
            attempt_deadline_at=self.attempt_deadline_at or 0,
            execution_deadline_at=self.execution_deadline_at or 0,
            resume=None if resume is None else resume.view(),
            resume_signals=tuple(signal.view() for signal in self.resume_signals),
            steps=tuple(step.view(name) for name, step in self.steps.items()),
            step_count=self.step_count,
        )  # fmt: skip


class TaskList(Struct, frozen=True):
    """What a claim brought."""

    tasks: tuple[TaskShape, ...]


class ClaimedShape(Struct, frozen=True, rename={"claimed": "Claimed"}):
    """What a claim by name brought."""

    claimed: TaskShape


class SuspensionShape(Struct, frozen=True):
    """What a suspension led to."""

    suspension_id: str
    waitpoint_id: str
    waitpoint_key: str
    waitpoint_token: str
    additional_waitpoints: tuple[Any, ...] = ()
    resume_signals: tuple[WaitSignal, ...] = ()


def read_tasks(body: bytes, worker_id: str, worker_instance_id: str) -> tuple[Task, ...]:
    """Read the answer of a claim."""
    found = msgspec.json.decode(body, type=TaskList)
    return tuple(shape.task(worker_id, worker_instance_id) for shape in found.tasks)


def read_claimed(body: bytes, worker_id: str, worker_instance_id: str) -> ClaimedOne:
    """Read the answer of a claim by name."""
    shape = msgspec.json.decode(body, type=ClaimedShape).claimed
    return claimed_one(shape.task(worker_id, worker_instance_id))
