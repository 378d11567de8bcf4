"""Submitting work: the server mints the id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from flowfabric.model import checks, ids
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.kinds import with_defaults
from flowfabric.model.operations.create import Created, CreateExecution, Duplicate
from flowfabric.server.call import Answer, Call
from flowfabric.server.errors import HttpError, bad_request, refused_item, unprocessable
from flowfabric.server.forms import (
    U64,
    ExecutionIdText,
    Ms,
    Priority,
    Uuid,
    Weight,
    from_base64,
    json_or_base64,
    later,
    optional_json,
)
from flowfabric.server.roles import Need
from flowfabric.server.routing import BATCH, PAYLOAD, endpoint
from flowfabric.storage.minting import new_uuid


class Submission(Struct, frozen=True):
    """One piece of work to run."""

    kind: str
    input: msgspec.Raw | UnsetType = UNSET
    input_base64: str | UnsetType | None = UNSET
    lane: str | None = None
    """Left out: the lane of the kind, else `default`."""
    namespace: str | None = None
    priority: Priority | None = None
    idempotency_key: str | None = None
    creator: str | None = None
    tags: dict[str, str] = {}
    policy: msgspec.Raw | UnsetType = UNSET
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


class SubmissionBatch(Struct, frozen=True):
    """Up to a thousand pieces of work; one bad item does not fail the others."""

    items: Annotated[list[msgspec.Raw], Meta(min_length=1, max_length=1000)]


_ITEM = msgspec.json.Decoder(Submission)


def creation(call: Call, item: Submission) -> CreateExecution:
    """Turn a submission into the command that creates it; its lane is empty when it is left out."""
    now = call.store.now()
    payload, encoding = json_or_base64("input", item.input, item.input_base64, b"null")
    namespace = call.namespace(item.namespace)
    uuid = item.uuid or new_uuid()
    key = item.idempotency_key or ""
    partitions = call.store.partitions
    checks.text("idempotency_key", key, empty=True)
    checks.name("namespace", namespace)
    checks.name("creator", item.creator or "", empty=True)
    if item.lane is not None:
        _check_lane(item.lane)
    execution_id = ids.for_key(namespace, key, uuid, partitions) if key else ids.spread(uuid, partitions)
    if item.execution_id is not None:
        if item.uuid is not None:
            raise bad_request("give uuid or execution_id, not both", field="execution_id")
        execution_id = item.execution_id
    return CreateExecution(
        execution_id=execution_id, execution_kind=item.kind, lane_id=item.lane or "", namespace=namespace,
        creator_identity=item.creator or "", input_payload=payload or b"",
        payload_encoding=encoding or item.payload_encoding or "",
        priority=item.priority, idempotency_key=key, tags=checks.tags(item.tags),
        policy=_policy(item),
        delay_until=later(now, "delay", item.delay_ms, item.delay_until),
        execution_deadline_at=later(now, "deadline", item.deadline_ms, item.deadline_at),
        flow_id=item.flow_id or "", budget_ids=item.budget_ids, quota_ids=item.quota_ids,
        fairness_key=item.fairness_key or "", actor=call.author(item.creator or ""),
    )  # fmt: skip


def _check_lane(lane: str) -> None:
    """Refuse a malformed lane as a fault of the body's shape, as the older route does."""
    try:
        checks.lane(lane, "lane")
    except FlowFabricError as error:
        refusal = unprocessable("lane", error.text)
        refusal.details = list(error.details)
        raise refusal from error


def _policy(item: Submission) -> bytes:
    if item.policy_base64 is None:
        return optional_json(item.policy)
    if not isinstance(item.policy, UnsetType):
        raise bad_request("give policy or policy_base64, not both", field="policy")
    return from_base64("policy_base64", item.policy_base64)


def shown(reply: Created | Duplicate) -> dict[str, Any]:
    """Show what a submission led to."""
    return {
        "execution_id": reply.execution_id,
        "public_state": reply.public_state or None,
        "duplicate": isinstance(reply, Duplicate),
    }


@endpoint(
    "POST", "/v1/submit", Need.SUBMIT, body=Submission, limit=PAYLOAD, bound=True,
    answers=((201, "A new execution."), (200, "The id or the key was used before.")),
)  # fmt: skip
async def submit(call: Call) -> Answer:
    """Submit one piece of work."""
    (command,) = await _resolved(call, [(call.body, creation(call, call.body))])
    reply = await call.apply(command)
    return Answer(shown(reply), 200 if isinstance(reply, Duplicate) else 201)


@endpoint("POST", "/v1/submit/batch", Need.SUBMIT, body=SubmissionBatch, limit=BATCH, bound=True)
async def submit_batch(call: Call) -> Answer:
    """Submit many pieces of work; results come in order, each a submission's answer or its error."""
    found: list[tuple[Submission, CreateExecution]] = []
    results: list[dict[str, Any] | None] = []
    for raw in call.body.items:
        try:
            item = _decode(raw)
            found.append((item, creation(call, item)))
            results.append(None)
        except (HttpError, FlowFabricError) as error:
            results.append(refused_item(error, Submission))
    replies = iter(await call.apply_many(await _resolved(call, found)))
    for place, result in enumerate(results):
        if result is None:
            reply = next(replies)
            results[place] = (
                refused_item(reply, Submission) if isinstance(reply, FlowFabricError) else shown(reply)
            )
    return Answer({"results": results})


async def _resolved(call: Call, found: Sequence[tuple[Submission, CreateExecution]]) -> list[CreateExecution]:
    """Put the defaults of the kinds into the commands, after one lookup for all of them."""
    pairs = [(each.namespace, each.execution_kind) for item, each in found if item.kind_defaults]
    kinds = await call.server.kinds.find(call.store, pairs)
    return [
        with_defaults(each, kinds[each.namespace, each.execution_kind] if item.kind_defaults else None)
        for item, each in found
    ]


def _decode(raw: msgspec.Raw) -> Submission:
    from flowfabric.server.gate import decode_body  # noqa: PLC0415 - the gate loads the routes

    item: Submission = decode_body(_ITEM, bytes(raw))
    return item
