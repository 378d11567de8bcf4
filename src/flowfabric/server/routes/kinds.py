"""Kinds: what workers say of their tasks, and what submissions by name leave to them."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Final

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from flowfabric.model import checks
from flowfabric.model.errors import refuse
from flowfabric.model.limits import MAX_KINDS_PER_PAGE, MAX_NAME_BYTES, MAX_PRIORITY
from flowfabric.model.operations.kind import DeleteKind, GetKind, ListKinds, PublishKind
from flowfabric.server.call import Answer, Call
from flowfabric.server.cursors import bad_cursor
from flowfabric.server.errors import HttpError
from flowfabric.server.forms import Weight, optional_json, same_id
from flowfabric.server.roles import Need
from flowfabric.server.routing import MEDIUM, endpoint
from flowfabric.server.shapes import kind as shown

_FOR_ALL: Final = ""


class KindForm(Struct, frozen=True):
    """A kind to publish. Whatever is left out is not said of it."""

    kind: str | None = None
    """May be repeated here; then it must equal the path."""
    namespace: str | None = None
    """Left out: that of the token; an unbound token publishes for all namespaces then."""
    lane: str | None = None
    priority: Annotated[int, Meta(ge=0, le=MAX_PRIORITY)] | None = None
    tags: dict[str, str] = {}
    required_capabilities: tuple[str, ...] = ()
    fairness_key: str | None = None
    fairness_weight: Weight | None = None
    policy: Raw | UnsetType = UNSET
    input_schema: Raw | UnsetType = UNSET
    """JSON Schema of the arguments, at most 64 KiB."""
    description: str | None = None
    """At most 4 KiB."""


class KindQuery(Struct, frozen=True):
    """In which namespace a kind is meant."""

    namespace: str | None = None


class KindsQuery(Struct, frozen=True):
    """Which kinds, and which page of them."""

    namespace: str | None = None
    """The kinds of this namespace and those for all."""
    limit: Annotated[int, Meta(ge=1, le=MAX_KINDS_PER_PAGE)] = 100
    cursor: str = ""


@endpoint("PUT", "/v1/kinds/{kind}", Need.WORK, body=KindForm, limit=MEDIUM, bound=True)
async def publish_kind(call: Call) -> Answer:
    """Publish what a task's code says of it; the last publisher wins."""
    form: KindForm = call.body
    name = call.path["kind"]
    if form.kind is not None:
        same_id("kind", name, form.kind)
    outcome = await call.apply(
        PublishKind(
            kind=name, namespace=_own_namespace(call, form.namespace), lane=form.lane or "", priority=form.priority,
            tags=checks.tags(form.tags),
            required_capabilities=checks.required_capabilities(form.required_capabilities),
            fairness_key=form.fairness_key or "", fairness_weight=form.fairness_weight,
            policy=optional_json(form.policy).decode(), input_schema=optional_json(form.input_schema).decode(),
            description=form.description or "", actor=call.actor,
        )
    )  # fmt: skip
    call.server.kinds.forget()
    return Answer(type(outcome).__name__)


@endpoint("GET", "/v1/kinds/{kind}", Need.READ, query=KindQuery, bound=True)
async def get_kind(call: Call) -> Answer:
    """Read the kind that holds in a namespace: its own, else the one for all."""
    asked: KindQuery = call.query
    bound = call.principal.namespace
    if bound and asked.namespace not in {None, bound}:
        raise refuse("kind_not_found", field="kind")
    namespace = bound or asked.namespace or _FOR_ALL
    return Answer(shown(await call.read(GetKind(kind=call.path["kind"], namespace=namespace))))


@endpoint("GET", "/v1/kinds", Need.READ, query=KindsQuery, bound=True)
async def list_kinds(call: Call) -> Answer:
    """List kinds by namespace and name; a bound token sees those of its namespace and those for all."""
    asked: KindsQuery = call.query
    bound = call.principal.namespace
    after = _read_cursor(asked.cursor)
    if bound and asked.namespace not in {None, bound}:
        return Answer({"kinds": [], "next_cursor": None})
    page = await call.read(ListKinds(namespace=bound or asked.namespace, limit=asked.limit, after=after))
    return Answer({"kinds": [shown(kind) for kind in page.kinds], "next_cursor": _write_cursor(page.next)})


@endpoint("DELETE", "/v1/kinds/{kind}", Need.OPERATE, query=KindQuery, bound=True)
async def delete_kind(call: Call) -> Answer:
    """Delete a kind of exactly one namespace; without `namespace`, that of the token."""
    asked: KindQuery = call.query
    await call.apply(
        DeleteKind(kind=call.path["kind"], namespace=_own_namespace(call, asked.namespace), actor=call.actor)
    )
    call.server.kinds.forget()
    return Answer("Deleted")


def _own_namespace(call: Call, asked: str | None) -> str:
    """Return where a token writes kinds: its own namespace; an unbound one where it says, else for all."""
    bound = call.principal.namespace
    if bound and asked not in {None, bound}:
        raise HttpError(403, f"this token is bound to namespace {bound}", "forbidden", kind="forbidden")
    return bound or asked or _FOR_ALL


def _write_cursor(place: tuple[str, str] | None) -> str | None:
    return None if place is None else base64.urlsafe_b64encode("\0".join(place).encode()).decode()


def _read_cursor(text: str) -> tuple[str, str] | None:
    """Read where a page begins; one that was forged is only another beginning of the same list."""
    if not text:
        return None
    try:
        namespace, kind = base64.b64decode(text, b"-_", validate=True).decode().split("\0")
    except (binascii.Error, ValueError) as error:
        raise bad_cursor("it is not one of this list") from error
    if not kind or max(len(namespace), len(kind)) > MAX_NAME_BYTES:
        raise bad_cursor("it is not one of this list")
    return namespace, kind
