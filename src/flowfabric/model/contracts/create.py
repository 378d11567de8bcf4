"""Creating executions, and what clients and operators do to them."""

from __future__ import annotations

from msgspec import Struct

from flowfabric.model import checks
from flowfabric.model.contracts.base import Command, ExecutionCommand, Need
from flowfabric.model.errors import invalid
from flowfabric.model.ids import check_uuid
from flowfabric.model.limits import (
    MAX_INT,
    MAX_NAME_BYTES,
    MAX_PAYLOAD_BYTES,
    MAX_POLICY_BYTES,
    MAX_TEXT_BYTES,
)
from flowfabric.model.state import Public


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

    def needs(self) -> tuple[Need, ...]:
        """The execution, and what the key remembers."""
        if not self.idempotency_key:
            return super().needs()
        return (*super().needs(), create_memo(self.namespace, self.idempotency_key))


def create_memo(namespace: str, key: str) -> Need:
    """Name the memo of a creation key."""
    return "memo", ("create", namespace, key)


class Cancelled(Struct, frozen=True):
    """The execution is cancelled."""

    execution_id: str
    public_state: Public = Public.CANCELLED


class PriorityChanged(Struct, frozen=True):
    """The priority before and after."""

    old: int
    new: int


class ChangePriority(ExecutionCommand[PriorityChanged], frozen=True, kw_only=True):
    """Change the priority of anything that has not ended."""

    priority: int

    def check(self) -> None:
        """Check the number; it is clamped, not refused, outside 0..9000."""
        super().check()
        checks.integer("priority", self.priority, -MAX_INT, MAX_INT)


class TagsSet(Struct, frozen=True):
    """How many tags were written."""

    count: int


class SetTags(ExecutionCommand[TagsSet], frozen=True, kw_only=True):
    """Merge tags into those of an execution, in any phase."""

    tags: tuple[tuple[str, str], ...]

    def check(self) -> None:
        """Check that there are tags and that each is well formed."""
        super().check()
        if not self.tags:
            raise invalid("tags", "send at least one tag")
        if self.tags != checks.tags(dict(self.tags)):
            raise invalid("tags", "send each key once, in sorted order")


class Replayed(Struct, frozen=True):
    """The execution runs once more."""

    public_state: Public


class Replay(ExecutionCommand[Replayed], frozen=True, kw_only=True):
    """Start an ended execution again (T26, T27); steps start clean unless kept."""

    reason: str = ""
    requested_by: str = ""
    keep_steps: bool = False
    from_step: str = ""
    """Keep the steps that were called before this one."""

    def check(self) -> None:
        """Check the texts, and that only one way of keeping steps is asked for."""
        super().check()
        checks.text("reason", self.reason, max_bytes=MAX_TEXT_BYTES, empty=True)
        checks.text("requested_by", self.requested_by, max_bytes=MAX_NAME_BYTES, empty=True)
        checks.text("from_step", self.from_step, max_bytes=MAX_NAME_BYTES, empty=True)
        if self.keep_steps and self.from_step:
            raise invalid("from_step", "give keep_steps or from_step, not both")


class Paused(Struct, frozen=True):
    """Paused, or paused already."""


class Unpaused(Struct, frozen=True):
    """Unpaused, or never paused."""


class Pause(ExecutionCommand[Paused], frozen=True, kw_only=True):
    """Hold back a runnable execution until an operator lets it go."""

    reason: str = ""

    def check(self) -> None:
        """Check the reason."""
        super().check()
        checks.text("reason", self.reason, max_bytes=MAX_TEXT_BYTES, empty=True)


class Unpause(ExecutionCommand[Unpaused], frozen=True, kw_only=True):
    """Let a paused execution go on."""


class _LaneCommand(Command[Paused | Unpaused], frozen=True, kw_only=True):
    lane_id: str

    def check(self) -> None:
        """Check the lane."""
        super().check()
        checks.lane(self.lane_id)

    def needs(self) -> tuple[Need, ...]:
        """The lane."""
        return (("lane", (self.lane_id,)),)


class PauseLane(_LaneCommand, frozen=True, kw_only=True):
    """Stop claims on a lane."""

    reason: str = ""

    def check(self) -> None:
        """Check lane and reason."""
        super().check()
        checks.text("reason", self.reason, max_bytes=MAX_TEXT_BYTES, empty=True)


class OpenLane(_LaneCommand, frozen=True, kw_only=True):
    """Make a lane known before anything is in it; one that is known stays as it is."""


class UnpauseLane(_LaneCommand, frozen=True, kw_only=True):
    """Allow claims on a lane again."""


class Revoked(Struct, frozen=True):
    """The lease is gone."""

    lease_id: str
    lease_epoch: int


class AlreadySatisfied(Struct, frozen=True):
    """Nothing had to be done; `reason` says why."""

    reason: str


class RevokeLease(ExecutionCommand[Revoked | AlreadySatisfied], frozen=True, kw_only=True):
    """Take the lease away from its holder (T9)."""

    expected_lease_id: str = ""
    reason: str = "operator_revoke"

    def check(self) -> None:
        """Check the texts."""
        super().check()
        checks.text("reason", self.reason, max_bytes=MAX_TEXT_BYTES, empty=True)
        if self.expected_lease_id:
            check_uuid("expected_lease_id", self.expected_lease_id)


class Blocked(Struct, frozen=True):
    """Where the block left it."""

    public_state: Public


class Block(ExecutionCommand[Blocked], frozen=True, kw_only=True):
    """Hold eligible work back for a reason of admission (T28)."""

    blocking_reason: str
    blocking_detail: str = ""

    def check(self) -> None:
        """Check the texts; whether the reason may block is judged with the record."""
        super().check()
        checks.text("blocking_reason", self.blocking_reason, max_bytes=MAX_NAME_BYTES, empty=True)
        checks.text("blocking_detail", self.blocking_detail, max_bytes=MAX_TEXT_BYTES, empty=True)


class Unblock(ExecutionCommand[Blocked], frozen=True, kw_only=True):
    """Let blocked work go on (T29), if it is still blocked for the expected reason."""

    expected_blocking_reason: str = ""
