"""Create executions."""

from __future__ import annotations

from msgspec import Struct, msgpack

from flowfabric.model import checks
from flowfabric.model.command import ExecutionCommand, ReadRequest
from flowfabric.model.errors import invalid, refuse
from flowfabric.model.ids import check_uuid, partition_in
from flowfabric.model.limits import (
    DEFAULT_DEDUP_MS,
    DEFAULT_RETENTION_MS,
    MAX_INT,
    MAX_NAME_BYTES,
    MAX_PAYLOAD_BYTES,
    MAX_POLICY_BYTES,
    MAX_PRIORITY,
)
from flowfabric.model.machine.group import step
from flowfabric.model.machine.workspace import Cause, Workspace
from flowfabric.model.policy import Policy, parse_policy
from flowfabric.model.record_kinds import EXECUTION, IDEMPOTENCY, PAYLOAD, Key
from flowfabric.model.records import VERSION, Execution, Memo, Payload
from flowfabric.model.state import Public, public_state
from flowfabric.model.transitions import CREATED, CREATED_DELAYED


class Created(Struct, frozen=True):
    """A new execution exists."""

    execution_id: str
    public_state: Public


class Duplicate(Struct, frozen=True):
    """The id or the idempotency key was used before; `public_state` is empty once the execution has been purged."""

    execution_id: str
    public_state: Public | str


class CreateExecution(ExecutionCommand[Created | Duplicate], frozen=True, kw_only=True):
    """Create an execution (T1, T2)."""

    execution_kind: str
    lane_id: str = "default"
    namespace: str = "default"
    creator_identity: str = ""
    input_payload: bytes = b""
    payload_encoding: str = ""
    priority: int | None = None
    """Clamped to 0..9000; none: the policy's, else 0."""
    idempotency_key: str = ""
    tags: tuple[tuple[str, str], ...] = ()
    policy: bytes = b""
    """JSON text of the policy object, kept as it is."""
    delay_until: int | None = None
    execution_deadline_at: int | None = None
    flow_id: str = ""
    budget_ids: tuple[str, ...] = ()
    quota_ids: tuple[str, ...] = ()
    fairness_key: str = ""
    delay_ms: int | None = None
    """Instead of `delay_until`: counted from the moment at which it is created, by the store's clock."""

    def check(self) -> None:
        """Check every field but the policy, which is judged after duplicates."""
        super().check()
        checks.lane(self.lane_id)
        checks.name("namespace", self.namespace)
        checks.name("execution_kind", self.execution_kind)
        checks.name("creator_identity", self.creator_identity, empty=True)
        checks.text("payload_encoding", self.payload_encoding, max_bytes=MAX_NAME_BYTES, empty=True)
        checks.payload("input_payload", self.input_payload, MAX_PAYLOAD_BYTES)
        checks.payload("policy", self.policy, MAX_POLICY_BYTES)
        checks.text("idempotency_key", self.idempotency_key, max_bytes=MAX_NAME_BYTES, empty=True)
        checks.text("fairness_key", self.fairness_key, max_bytes=MAX_NAME_BYTES, empty=True)
        if self.priority is not None:
            checks.integer("priority", self.priority, -MAX_INT, MAX_INT)
        if self.delay_until is not None:
            checks.integer("delay_until", self.delay_until, 0, MAX_INT)
        if self.delay_ms is not None:
            checks.integer("delay_ms", self.delay_ms, 0, MAX_INT)
            if self.delay_until is not None:
                raise invalid("delay_ms", "give it or delay_until, not both")
        if self.execution_deadline_at is not None:
            checks.integer("execution_deadline_at", self.execution_deadline_at, 0, MAX_INT)
        if self.tags != checks.tags(dict(self.tags)):
            raise invalid("tags", "send each key once, in sorted order")
        for field, values in (("budget_ids", self.budget_ids), ("quota_ids", self.quota_ids)):
            for value in values:
                check_uuid(field, value)
        if self.flow_id:
            check_uuid("flow_id", self.flow_id)

    def reads(self) -> tuple[ReadRequest, ...]:
        """The execution, and what the key remembers."""
        if not self.idempotency_key:
            return super().reads()
        return (*super().reads(), (IDEMPOTENCY, create_key(self.namespace, self.idempotency_key)))


def create_key(namespace: str, key: str) -> Key:
    """Name the idempotency record of a creation."""
    return ("create", namespace, key)


@step(CreateExecution)
def create_execution(space: Workspace, command: CreateExecution) -> Created | Duplicate:
    """T1, T2: write a new execution, or name the one that the id or the key already stands for."""
    if existing := _existing(space, command):
        return existing
    policy = parse_policy(command.policy)
    _refuse_unknown_groups(command, policy)
    run = _record(space, command, policy)
    if command.idempotency_key:
        key = create_key(command.namespace, command.idempotency_key)
        window = policy.dedup_window_ms or DEFAULT_DEDUP_MS
        record = Memo(msgpack.encode(command.execution_id), min(space.now + window, MAX_INT))
        space.put(IDEMPOTENCY, *key, value=record)
    space.put(PAYLOAD, run.execution_id, value=Payload(command.input_payload, command.policy))
    space.put_execution(run, CREATED.event, Cause(command.actor or command.creator_identity), before="")
    return Created(run.execution_id, run.public_state)


def _existing(space: Workspace, command: CreateExecution) -> Duplicate | None:
    if command.idempotency_key:
        key = create_key(command.namespace, command.idempotency_key)
        record = space.get(IDEMPOTENCY, *key)
        if record is not None and record.expires_at > space.now:
            execution_id = msgpack.decode(record.value, type=str)
            holder = space.get(EXECUTION, execution_id)
            known = holder is not None and holder.namespace == command.namespace
            return Duplicate(execution_id, holder.public_state if holder and known else "")
    run = space.get(EXECUTION, command.execution_id)
    if run is not None and run.namespace != command.namespace:
        raise refuse("execution_id_taken", field="execution_id")  # says nothing about whose it is
    return Duplicate(run.execution_id, run.public_state) if run else None


def _refuse_unknown_groups(command: CreateExecution, policy: Policy) -> None:
    if command.flow_id:
        raise refuse("flow_not_found", command.flow_id, field="flow_id")
    if command.budget_ids or policy.budget_ids:
        raise refuse("budget_not_found", *(command.budget_ids or policy.budget_ids), field="budget_ids")
    if command.quota_ids:
        raise refuse("quota_policy_not_found", *command.quota_ids, field="quota_ids")


def _record(space: Workspace, command: CreateExecution, policy: Policy) -> Execution:
    now = space.now
    priority = command.priority if command.priority is not None else max(policy.priority, 0)
    delay_until = _delayed(command, policy, now)
    row = CREATED_DELAYED if delay_until > now else CREATED
    deadline = command.execution_deadline_at
    if deadline is None:
        deadline = now + policy.execution_deadline_ms if policy.execution_deadline_ms else 0
    to = row.to
    assert to.phase is not None
    assert to.eligibility is not None
    assert to.blocking is not None
    assert to.outcome is not None
    assert to.attempt is not None
    return Execution(
        VERSION,
        command.execution_id,
        command.namespace,
        command.lane_id,
        command.execution_kind,
        partition_in(command.execution_id),
        clamp_priority(priority),
        command.creator_identity,
        now,
        now,
        now,
        required_capabilities=policy.required_capabilities,
        fairness_key=command.fairness_key or command.namespace,
        tags=command.tags,
        payload_encoding=command.payload_encoding,
        policy=policy,
        retention_ms=policy.retention_ms or DEFAULT_RETENTION_MS,
        lifecycle_phase=to.phase,
        eligibility_state=to.eligibility,
        blocking_reason=to.blocking,
        attempt_state=to.attempt,
        public_state=public_state(to.phase, to.eligibility, to.outcome),
        delay_until=delay_until if row is CREATED_DELAYED else 0,
        execution_deadline_at=min(deadline, MAX_INT),
    )


def _delayed(command: CreateExecution, policy: Policy, now: int) -> int:
    """Say from when on it may run; a time that has passed means now."""
    if command.delay_ms is not None:
        return min(now + command.delay_ms, MAX_INT)
    return command.delay_until if command.delay_until is not None else policy.delay_until


def clamp_priority(value: int) -> int:
    """Bring a priority into the range that keeps scores exact."""
    return max(0, min(value, MAX_PRIORITY))
