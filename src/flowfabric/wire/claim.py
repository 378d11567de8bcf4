"""Claiming work: tasks, and what a task carries."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from flowfabric.model.command import Fence
from flowfabric.model.limits import DEFAULT_LEASE_TTL_MS
from flowfabric.model.operations.claim import Claim, Claimed, Resume, Task
from flowfabric.model.views import StepView
from flowfabric.model.wait_result import WaitSignal, wait_signal
from flowfabric.wire import payload
from flowfabric.wire.answers import View, decoded
from flowfabric.wire.fields import Body, Integer
from flowfabric.wire.rights import Right
from flowfabric.wire.route import Incoming, always, route

ATTEMPT_TYPES: Final = ["initial", "retry", "replay", "reclaim", "resumed"]
NULL: Final = Raw(b"null")


class ClaimBody(Body, frozen=True):
    """What a worker can run, how much of it at once, and how long it waits for it."""

    worker_instance_id: str
    lanes: tuple[str, ...]
    kinds: tuple[str, ...] | None = None
    capabilities: tuple[str, ...] = ()
    max_tasks: Integer = 1
    lease_ttl_ms: Integer = DEFAULT_LEASE_TTL_MS
    wait_ms: Integer = 0
    claim_id: str | None = None
    """A repeat with the same id, while those leases live, gets the same tasks."""
    namespace: str | None = None
    """Only work of this namespace."""


class StepResult(View, frozen=True, kw_only=True):
    """A stored step without its name."""

    result: Raw | UnsetType = UNSET
    result_base64: str | UnsetType = UNSET
    call_index: int
    at: int
    encoding: str

    @classmethod
    def of(cls, source: Any, /, **given: Any) -> StepResult:
        """Build it from a step of the engine."""
        shown = payload.shown("result", source.result, source.encoding)
        return cls(call_index=source.call_index, at=source.at, encoding=source.encoding, **shown, **given)

    def model(self, name: str) -> StepView:
        """Return the step of the engine."""
        return StepView(
            name, self.call_index, self.at, self.encoding, payload.bytes_of(self.result, self.result_base64)
        )


class ResumeView(View, frozen=True, kw_only=True):
    """What ended the suspension that a claim resumes."""

    suspension_id: str
    step_name: str | None
    reason: str


class TaskView(Struct, frozen=True, kw_only=True):
    """A task with everything that its worker needs. Nothing is left out, also where it has its default."""

    execution_id: str
    execution_kind: str
    namespace: str
    lane_id: str
    flow_id: str | None
    priority: int
    attempt_index: int
    attempt_id: str
    attempt_type: Annotated[str, Meta(extra_json_schema={"enum": ATTEMPT_TYPES})]
    fence: Fence
    lease_expires_at: int
    attempt_deadline_at: int | None = None
    execution_deadline_at: int | None = None
    input: Raw | UnsetType = UNSET
    input_base64: str | UnsetType = UNSET
    payload_encoding: str | None
    tags: dict[str, str]
    policy: Raw
    resume: ResumeView | None = None
    resume_signals: tuple[WaitSignal, ...]
    steps: dict[str, StepResult]
    step_count: int = 0

    @classmethod
    def of(cls, task: Task) -> TaskView:
        """Build it from a task of the engine."""
        policy = payload.embedded(task.policy) if task.policy else None
        resume = task.resume
        return cls(
            execution_id=task.execution_id,
            execution_kind=task.execution_kind,
            namespace=task.namespace,
            lane_id=task.lane_id,
            flow_id=task.flow_id or None,
            priority=task.priority,
            attempt_index=task.attempt_index,
            attempt_id=task.attempt_id,
            attempt_type=task.attempt_type,
            fence=task.fence,
            lease_expires_at=task.lease_expires_at,
            attempt_deadline_at=task.attempt_deadline_at or None,
            execution_deadline_at=task.execution_deadline_at or None,
            payload_encoding=task.payload_encoding or None,
            tags=dict(task.tags),
            policy=NULL if policy is None else policy,
            resume=None if resume is None else ResumeView.of(resume, step_name=resume.step_name or None),
            resume_signals=tuple(map(wait_signal, task.resume_signals)),
            steps={step.name: StepResult.of(step) for step in task.steps},
            step_count=task.step_count,
            **payload.shown("input", task.input, task.payload_encoding),
        )

    def model(self, worker_id: str, worker_instance_id: str) -> Task:
        """Return the task of the engine."""
        resume = self.resume
        return Task(
            self.execution_id,
            self.execution_kind,
            self.namespace,
            self.lane_id,
            self.flow_id or "",
            self.priority,
            self.attempt_index,
            self.attempt_id,
            self.attempt_type,
            self.fence,
            self.lease_expires_at,
            payload.bytes_of(self.input, self.input_base64),
            self.payload_encoding or "",
            tuple(sorted(self.tags.items())),
            b"" if self.policy == NULL else bytes(self.policy),
            worker_id,
            worker_instance_id,
            attempt_deadline_at=self.attempt_deadline_at or 0,
            execution_deadline_at=self.execution_deadline_at or 0,
            resume=None
            if resume is None
            else Resume(resume.suspension_id, resume.step_name or "", resume.reason),
            resume_signals=tuple(signal.view() for signal in self.resume_signals),
            steps=tuple(step.model(name) for name, step in self.steps.items()),
            step_count=self.step_count,
        )


class TaskList(View, frozen=True, kw_only=True):
    """What a claim brought."""

    tasks: tuple[TaskView, ...]


def _claimer(call: Incoming, body: ClaimBody) -> dict[str, Any]:
    return {"mint": call.new_id(), "namespace": call.claim_namespace(body.namespace)}


def _tasks(command: Claim, reply: Any) -> Claimed:
    found: TaskList = decoded(reply.body, TaskList)
    return Claimed(tuple(task.model(command.worker_id, command.worker_instance_id) for task in found.tasks))


CLAIM = route(
    "take_tasks", "POST", "/v1/workers/{worker_id}/tasks", Right.WORK,
    "Claim work; when there is none, wait for some.",
    command=Claim, body=ClaimBody, answer=TaskList, bound=True, safe=always, takes=_claimer, reads=_tasks,
    sends=lambda command: {"claim_id": command.claim_id or command.mint},
    example={"worker_instance_id": "worker-1-a", "lanes": ["default"], "max_tasks": 4, "wait_ms": 0},
)  # fmt: skip
"""Without an id of its own, the mint of a claim makes a repeat recognisable."""
