"""Kinds: what workers publish about their tasks, and what submissions by name leave to them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, UnsetType, field

from flowfabric.model.limits import MAX_KINDS_PER_PAGE, MAX_PRIORITY
from flowfabric.model.operations.kind import (
    DeleteKind,
    FindKinds,
    GetKind,
    KindDeleted,
    ListKinds,
    Published,
    PublishKind,
    Unchanged,
)
from flowfabric.model.records import Kind
from flowfabric.wire.answers import View, one_of
from flowfabric.wire.fields import Body, Weight, same_id
from flowfabric.wire.rights import Right
from flowfabric.wire.route import MEDIUM, Incoming, always, route

JsonObject = Annotated[Raw | UnsetType, Meta(extra_json_schema={"type": "object"})]


class KindBody(Body, frozen=True):
    """A kind to publish. Whatever is left out is not said of it."""

    kind: str | None = None
    """May be repeated here; then it must equal the path."""
    namespace: str | None = None
    """Left out: that of the token; an unbound token publishes for all namespaces then."""
    lane: str | None = None
    priority: Annotated[int, Meta(ge=0, le=MAX_PRIORITY)] | None = None
    tags: dict[str, str] = field(default_factory=dict)
    required_capabilities: tuple[str, ...] = ()
    fairness_key: str | None = None
    fairness_weight: Weight | None = None
    policy: Raw | UnsetType = UNSET
    input_schema: Raw | UnsetType = UNSET
    """JSON Schema of the arguments, at most 64 KiB."""
    description: str | None = None
    """At most 4 KiB."""


def _publish(call: Incoming, body: KindBody) -> dict[str, Any]:
    if body.kind is not None:
        same_id("kind", call.path["kind"], body.kind)
    return {"namespace": call.own_namespace(body.namespace)}


PUBLISH = route(
    "publish_kind", "PUT", "/v1/kinds/{kind}", Right.WORK,
    "Publish what a task's code says of it; the last publisher wins.",
    command=PublishKind, body=KindBody, answer=one_of(Published, Unchanged), limit=MEDIUM, bound=True, safe=always,
    takes=_publish, sends=lambda _: {"kind": None},
    example={
        "lane": "images", "policy": {"retry_policy": {"max_retries": 3}}, "description": "Resize an image.",
        "input_schema": {"type": "object", "properties": {"image": {"type": "string"}}, "required": ["image"]},
    },
)  # fmt: skip


class KindQuery(Body, frozen=True):
    """In which namespace a kind is meant."""

    namespace: str | None = None


class KindsQuery(Body, frozen=True):
    """Which kinds, and which page of them."""

    namespace: str | None = None
    """The kinds of this namespace and those for all."""
    limit: Annotated[int, Meta(ge=1, le=MAX_KINDS_PER_PAGE)] = 100
    cursor: str = ""


class KindView(View, frozen=True, kw_only=True):
    """A kind; what it does not say is absent."""

    kind: str
    namespace: str
    tags: dict[str, str]
    required_capabilities: tuple[str, ...]
    published_at: int
    published_by: str
    digest: str
    priority: int | UnsetType = UNSET
    policy: JsonObject = UNSET
    input_schema: JsonObject = UNSET
    lane: str = ""
    fairness_key: str = ""
    fairness_weight: int | UnsetType = UNSET
    description: str = ""

    @classmethod
    def of(cls, source: Kind, /, **given: Any) -> KindView:
        """Build it from the record of a kind."""
        return super().of(
            source,
            tags=dict(source.tags),
            policy=_raw(source.policy),
            input_schema=_raw(source.input_schema),
            priority=UNSET if source.priority is None else source.priority,
            fairness_weight=source.fairness_weight or UNSET,
            **given,
        )


def _raw(text: str) -> Raw | UnsetType:
    return Raw(text.encode()) if text else UNSET


class KindList(View, frozen=True, kw_only=True):
    """Kinds by namespace and name."""

    kinds: tuple[KindView, ...]
    next_cursor: str | None


GET_KIND = route(
    "get_kind", "GET", "/v1/kinds/{kind}", Right.READ,
    "Read the kind that holds in a namespace: its own, else the one for all.",
    questions=(GetKind,), query=KindQuery, answer=KindView, bound=True,
)  # fmt: skip
LIST_KINDS = route(
    "list_kinds", "GET", "/v1/kinds", Right.READ,
    "List kinds by namespace and name; a bound token sees those of its namespace and those for all.",
    questions=(ListKinds, FindKinds), query=KindsQuery, answer=KindList, bound=True,
)  # fmt: skip
DELETE_KIND = route(
    "delete_kind", "DELETE", "/v1/kinds/{kind}", Right.OPERATE,
    "Delete a kind of exactly one namespace; without `namespace`, that of the token.",
    command=DeleteKind, query=KindQuery, answer=one_of(Deleted=KindDeleted), bound=True,
    takes=lambda call, query: {"namespace": call.own_namespace(query.namespace)},
)  # fmt: skip
