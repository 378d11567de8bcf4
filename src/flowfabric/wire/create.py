"""Creating executions."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, Raw, UnsetType, field

from flowfabric.model import checks, ids
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.create import Created, CreateExecution, Duplicate
from flowfabric.model.state import Public
from flowfabric.wire import payload
from flowfabric.wire.answers import View, decoded, items_of, one_of
from flowfabric.wire.classic import ByteList, policy_text, to_bytes
from flowfabric.wire.errors import Refusal, bad_request, unprocessable
from flowfabric.wire.examples import ID, NOW
from flowfabric.wire.fields import (
    U16,
    U64,
    Body,
    Clock,
    ExecutionIdText,
    LaneText,
    Ms,
    Priority,
    Uuid,
    Weight,
    later,
    optional_json,
)
from flowfabric.wire.operate import clamped
from flowfabric.wire.rights import Right
from flowfabric.wire.route import BATCH, LARGE, PAYLOAD, Incoming, always, route

_ANSWERS = ((201, "A new execution."), (200, "The id or the key was used before."))


class SubmitBody(Body, frozen=True):
    """One piece of work to run."""

    kind: str
    input: Raw | UnsetType = UNSET
    input_base64: str | UnsetType | None = UNSET
    lane: str | None = None
    """Left out: the lane of the kind, else `default`."""
    namespace: str | None = None
    priority: Priority | None = None
    idempotency_key: str | None = None
    creator: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    policy: Raw | UnsetType = UNSET
    delay_ms: U64 | None = None
    delay_until: Ms | None = None
    deadline_ms: U64 | None = None
    deadline_at: Ms | None = None
    flow_id: Uuid | None = None
    budget_ids: tuple[Uuid, ...] = ()
    quota_ids: tuple[Uuid, ...] = ()
    fairness_key: str | None = None
    fairness_weight: Weight | None = None
    kind_defaults: bool = True
    """Whether what is left out comes from the kind that a worker has published."""
    uuid: Uuid | None = None
    """The caller's own id, so that a repeat is recognised."""
    execution_id: ExecutionIdText | None = None
    """A whole id that the caller has minted, in place of `uuid`."""
    policy_base64: str | None = None
    """The text of the policy as raw bytes, in place of `policy`."""
    payload_encoding: str | None = None
    """Of raw bytes only."""


def _creation(call: Incoming, item: SubmitBody) -> dict[str, Any]:
    """Return what a submission does not name as the command does; its lane is empty when it is left out."""
    now = call.now()
    data, encoding = payload.taken("input", item.input, item.input_base64, item.payload_encoding)
    namespace = call.namespace(item.namespace)
    uuid = item.uuid or call.new_id()
    key = item.idempotency_key or ""
    checks.text("idempotency_key", key, empty=True)
    checks.name("namespace", namespace)
    checks.name("creator", item.creator or "", empty=True)
    if item.lane is not None:
        _check_lane(item.lane)
    if item.execution_id is not None:
        if item.uuid is not None:
            raise bad_request("give uuid or execution_id, not both", field="execution_id")
        execution_id: str = item.execution_id
    elif key:
        execution_id = ids.for_key(namespace, key, uuid, call.partitions)
    else:
        execution_id = ids.spread(uuid, call.partitions)
    return {
        "execution_id": execution_id,
        "lane_id": item.lane or "",
        "namespace": namespace,
        "input_payload": data,
        "payload_encoding": encoding,
        "tags": checks.tags(item.tags),
        "policy": _policy(item),
        "delay_until": later(now, "delay", item.delay_ms, item.delay_until),
        "delay_ms": None,
        "execution_deadline_at": later(now, "deadline", item.deadline_ms, item.deadline_at),
        "actor": call.author(item.creator or ""),
    }


def _check_lane(lane: str) -> None:
    """Refuse a malformed lane as a fault of the body's shape, as the classic route does."""
    try:
        checks.lane(lane, "lane")
    except FlowFabricError as error:
        refusal = unprocessable("lane", error.text)
        refusal.details = list(error.details)
        raise refusal from error


def _policy(item: SubmitBody) -> bytes:
    if item.policy_base64 is None:
        return optional_json(item.policy)
    if not isinstance(item.policy, UnsetType):
        raise bad_request("give policy or policy_base64, not both", field="policy")
    return payload.from_base64("policy_base64", item.policy_base64)


def _submission(command: CreateExecution) -> dict[str, Any]:
    """Return what the command does not name as a submission does: defaults of its kind are in it already."""
    policy: dict[str, Any] = {"policy": None}
    if command.policy:
        valid = command.policy != b"null" and payload.is_value(command.policy)
        policy = {"policy": Raw(command.policy)} if valid else _raw_policy(command.policy)
    return {
        "execution_id": command.execution_id,
        "idempotency_key": command.idempotency_key or None,
        "creator": command.creator_identity or None,
        "priority": clamped(command.priority),
        "flow_id": command.flow_id or None,
        "fairness_key": command.fairness_key or None,
        "kind_defaults": False,
        "payload_encoding": None,
        **policy,
        **payload.sent("input", command.input_payload, command.payload_encoding, "payload_encoding"),
    }


def _raw_policy(text: bytes) -> dict[str, Any]:
    """Send a policy that is no JSON as it is: the engine says what is wrong with it."""
    return {"policy": None, "policy_base64": payload.to_base64(text)}


class Submitted(View, frozen=True, kw_only=True):
    """An execution, and whether it existed before; the state is null once it has been purged."""

    execution_id: str
    public_state: Public | None
    duplicate: bool

    @classmethod
    def of(cls, source: Created | Duplicate, /, **given: Any) -> Submitted:
        """Build it from the answer of the engine."""
        state: Any = source.public_state or None
        duplicate = isinstance(source, Duplicate)
        return cls(execution_id=source.execution_id, public_state=state, duplicate=duplicate, **given)

    def model(self) -> Created | Duplicate:
        """Return the answer of the engine."""
        if self.duplicate:
            return Duplicate(self.execution_id, self.public_state or "")
        return Created(self.execution_id, Public(self.public_state or ""))


def _submitted(_: Any, reply: Any) -> Created | Duplicate:
    found: Submitted = decoded(reply.body, Submitted)
    return found.model()


SUBMIT = route(
    "submit", "POST", "/v1/submit", Right.SUBMIT, "Submit one piece of work.",
    command=CreateExecution, body=SubmitBody, answer=Submitted, limit=PAYLOAD, bound=True, safe=always,
    names={
        "kind": "execution_kind", "lane": "lane_id", "creator": "creator_identity",
        "deadline_at": "execution_deadline_at",
    },
    takes=_creation, sends=_submission, reads=_submitted, statuses=_ANSWERS,
    example={"kind": "resize", "input": {"image": "a.png"}, "lane": "default", "priority": 10},
    examples={
        201: {"execution_id": ID, "public_state": "waiting", "duplicate": False},
        200: {"execution_id": ID, "public_state": "active", "duplicate": True},
    },
)  # fmt: skip


class SubmitBatchBody(Body, frozen=True):
    """Up to a thousand pieces of work; one bad item does not fail the others."""

    items: Annotated[list[Raw], Meta(min_length=1, max_length=1000)]


_RESULTS: Final = items_of(Submitted, Refusal)


class SubmittedBatch(View, frozen=True, kw_only=True):
    """What became of each item, in order."""

    results: Annotated[list[Any], _RESULTS]


SUBMIT_BATCH = route(
    "submit_batch", "POST", "/v1/submit/batch", Right.SUBMIT,
    "Submit many pieces of work; results come in order, each a submission's answer or its error.",
    body=SubmitBatchBody, answer=SubmittedBatch, limit=BATCH, bound=True, safe=always,
    example={"items": [{"kind": "resize", "input": 1}, {"kind": "resize", "input": 2}]},
)  # fmt: skip


class CreateBody(Body, frozen=True):
    """An execution whose id the caller has minted."""

    execution_id: ExecutionIdText
    namespace: str
    lane_id: LaneText
    execution_kind: str
    input_payload: ByteList
    priority: Priority
    creator_identity: str
    partition_id: U16
    """A copy of what the id says; the id decides."""
    now: Clock
    """The caller's clock; the store's decides."""
    payload_encoding: str | None = None
    idempotency_key: str | None = None
    tags: dict[str, str] | None = None
    policy: Raw | UnsetType = UNSET
    delay_until: Ms | None = None
    execution_deadline_at: Ms | None = None


class DuplicateView(View, frozen=True, kw_only=True):
    """An execution that existed before."""

    execution_id: str


def _classic_creation(call: Incoming, body: CreateBody) -> dict[str, Any]:
    """Return what a creation of the classic interface does not name or write as the command does."""
    return {
        "execution_id": body.execution_id,
        "namespace": call.namespace(body.namespace),
        "input_payload": to_bytes("input_payload", body.input_payload),
        "policy": policy_text(body.policy),
        "actor": call.author(body.creator_identity),
    }


CREATE = route(
    "create", "POST", "/v1/executions", Right.SUBMIT, "Create an execution under an id of the caller's.",
    body=CreateBody, answer=one_of(Created, Duplicate=DuplicateView), limit=LARGE, classic=True, bound=True,
    takes=_classic_creation, statuses=_ANSWERS,
    example={
        "execution_id": ID, "namespace": "default", "lane_id": "default", "execution_kind": "resize",
        "input_payload": [123, 125], "priority": 0, "creator_identity": "", "partition_id": 7, "now": NOW,
    },
)  # fmt: skip
