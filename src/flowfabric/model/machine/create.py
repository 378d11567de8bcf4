"""Creating executions, and the small changes that need no lease."""

from __future__ import annotations

from msgspec import msgpack
from msgspec.structs import replace

from flowfabric.model.contracts.create import (
    ChangePriority,
    Created,
    CreateExecution,
    Duplicate,
    PriorityChanged,
    SetTags,
    TagsSet,
    create_memo,
)
from flowfabric.model.errors import invalid, refuse
from flowfabric.model.ids import partition_in
from flowfabric.model.limits import DEFAULT_DEDUP_MS, DEFAULT_RETENTION_MS, MAX_INT, MAX_PRIORITY, MAX_TAGS
from flowfabric.model.machine.workspace import Workspace, step
from flowfabric.model.policy import Policy, parse_policy
from flowfabric.model.records import VERSION, Execution, Memo, Payload
from flowfabric.model.state import Phase, public_state
from flowfabric.model.transitions import T1, T2


@step(CreateExecution)
def create_execution(space: Workspace, command: CreateExecution) -> Created | Duplicate:
    """T1, T2: write a new execution, or name the one that the id or the key already stands for."""
    if existing := _existing(space, command):
        return existing
    policy = parse_policy(command.policy)
    _refuse_unknown_groups(command, policy)
    run = _record(space, command, policy)
    if command.idempotency_key:
        kind, key = create_memo(command.namespace, command.idempotency_key)
        window = policy.dedup_window_ms or DEFAULT_DEDUP_MS
        memo = Memo(msgpack.encode(command.execution_id), min(space.now + window, MAX_INT))
        space.put(kind, *key, value=memo)
    space.put("payload", run.execution_id, value=Payload(command.input_payload, command.policy))
    space.put_execution(run, T1.event, actor=command.actor or command.creator_identity, before="")
    return Created(run.execution_id, run.public_state)


def _existing(space: Workspace, command: CreateExecution) -> Duplicate | None:
    if command.idempotency_key:
        kind, key = create_memo(command.namespace, command.idempotency_key)
        memo: Memo | None = space.get(kind, *key)
        if memo is not None and memo.expires_at > space.now:
            execution_id = msgpack.decode(memo.value, type=str)
            holder: Execution | None = space.get("execution", execution_id)
            known = holder is not None and holder.namespace == command.namespace
            return Duplicate(execution_id, holder.public_state if holder and known else "")
    run: Execution | None = space.get("execution", command.execution_id)
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
    row = T2 if delay_until > now else T1
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
        VERSION, command.execution_id, command.namespace, command.lane_id, command.execution_kind,
        partition_in(command.execution_id), clamp_priority(priority), command.creator_identity, now, now, now,
        required_capabilities=policy.required_capabilities, fairness_key=command.fairness_key or command.namespace,
        tags=command.tags, payload_encoding=command.payload_encoding, policy=policy,
        retention_ms=policy.retention_ms or DEFAULT_RETENTION_MS, lifecycle_phase=to.phase,
        eligibility_state=to.eligibility, blocking_reason=to.blocking, attempt_state=to.attempt,
        public_state=public_state(to.phase, to.eligibility, to.outcome),
        delay_until=delay_until if row is T2 else 0, execution_deadline_at=min(deadline, MAX_INT),
    )  # fmt: skip


def _delayed(command: CreateExecution, policy: Policy, now: int) -> int:
    """Say from when on it may run; a time that has passed means now."""
    if command.delay_ms is not None:
        return min(now + command.delay_ms, MAX_INT)
    return command.delay_until if command.delay_until is not None else policy.delay_until


def clamp_priority(value: int) -> int:
    """Bring a priority into the range that keeps scores exact."""
    return max(0, min(value, MAX_PRIORITY))


@step(ChangePriority)
def change_priority(space: Workspace, command: ChangePriority) -> PriorityChanged:
    """Store a new priority; the order of a queue follows from the record."""
    run = space.execution(command.execution_id)
    if run.lifecycle_phase is Phase.TERMINAL:
        raise refuse("execution_not_eligible")
    new = clamp_priority(command.priority)
    changed = replace(run, priority=new, last_mutation_at=space.now)
    space.put_execution(
        changed, "priority_changed", actor=command.actor, before=run.public_state,
        details=(("old", str(run.priority)), ("new", str(new))),
    )  # fmt: skip
    return PriorityChanged(run.priority, new)


@step(SetTags)
def set_tags(space: Workspace, command: SetTags) -> TagsSet:
    """Merge tags; allowed in every phase."""
    run = space.execution(command.execution_id)
    merged = dict(run.tags) | dict(command.tags)
    if len(merged) > MAX_TAGS:
        raise invalid("tags", f"an execution has at most {MAX_TAGS} tags")
    tagged = replace(run, tags=tuple(sorted(merged.items())), last_mutation_at=space.now)
    space.put_execution(tagged, "tagged", actor=command.actor, before=run.public_state, details=command.tags)
    return TagsSet(len(command.tags))
