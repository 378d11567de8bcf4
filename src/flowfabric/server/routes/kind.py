"""Kinds: what workers say of their tasks, and what submissions by name leave to them."""

from __future__ import annotations

import base64
import binascii

from flowfabric.model.errors import refuse
from flowfabric.model.limits import MAX_NAME_BYTES
from flowfabric.model.operations.kind import FOR_ALL, GetKind, ListKinds
from flowfabric.server.http.call import Response, ServerCall
from flowfabric.server.http.cursors import bad_cursor
from flowfabric.server.http.routing import apply, serves
from flowfabric.wire.kind import (
    DELETE_KIND,
    GET_KIND,
    LIST_KINDS,
    PUBLISH,
    KindList,
    KindQuery,
    KindsQuery,
    KindView,
)


@serves(PUBLISH)
async def publish_kind(call: ServerCall) -> Response:
    """Publish a kind; this server forgets what it knew of it."""
    outcome = await apply(call, PUBLISH)
    call.server.kinds.forget()
    return Response(PUBLISH.answer.write(outcome))


@serves(DELETE_KIND)
async def delete_kind(call: ServerCall) -> Response:
    """Delete a kind; this server forgets what it knew of it."""
    outcome = await apply(call, DELETE_KIND)
    call.server.kinds.forget()
    return Response(DELETE_KIND.answer.write(outcome))


@serves(GET_KIND)
async def get_kind(call: ServerCall) -> Response:
    """Read the kind that holds in a namespace: its own, else the one for all."""
    asked: KindQuery = call.query
    bound = call.principal.namespace
    if bound and asked.namespace not in {None, bound}:
        raise refuse("kind_not_found", field="kind")
    namespace = bound or asked.namespace or FOR_ALL
    return Response(KindView.of(await call.read(GetKind(kind=call.path["kind"], namespace=namespace))))


@serves(LIST_KINDS)
async def list_kinds(call: ServerCall) -> Response:
    """List kinds by namespace and name; a bound token sees those of its namespace and those for all."""
    asked: KindsQuery = call.query
    bound = call.principal.namespace
    after = _read_cursor(asked.cursor)
    if bound and asked.namespace not in {None, bound}:
        return Response(KindList(kinds=(), next_cursor=None))
    page = await call.read(ListKinds(namespace=bound or asked.namespace, limit=asked.limit, after=after))
    return Response(KindList(kinds=tuple(map(KindView.of, page.kinds)), next_cursor=_write_cursor(page.next)))


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
