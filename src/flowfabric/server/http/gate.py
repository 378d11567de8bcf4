"""The way in: every request passes here, in this order.

Request id → route → other sites → token → method → text → namespace → size → body → handler → answer. What goes wrong
on the way becomes the one error body; nothing but a defect of ours is a 500, and even that has the body.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, get_args
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import Raw

from flowfabric.logs import EXECUTION, REQUEST
from flowfabric.model import checks
from flowfabric.model.errors import FlowFabricError
from flowfabric.server.access import audit
from flowfabric.server.access.auth import authorize
from flowfabric.server.access.roles import Principal
from flowfabric.server.http import records
from flowfabric.server.http.call import Response, ServerCall
from flowfabric.server.http.crosssite import CrossSite
from flowfabric.server.http.query import check_path, check_query, decode_query, text_of
from flowfabric.server.http.routing import Router, handler_of
from flowfabric.server.http.sending import Outgoing
from flowfabric.storage.minting import new_uuid
from flowfabric.wire import routes
from flowfabric.wire.errors import BAD_SHAPE, HttpError, from_engine
from flowfabric.wire.rights import Right, Role
from flowfabric.wire.route import FORM, Route

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from flowfabric.server.server import Server

log = logging.getLogger("flowfabric.server")
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
_PLACE: Final = re.compile(r" - at `\$\.?(.*)`$")
ON_BEHALF: Final = b"x-flowfabric-actor"
PRINCIPAL: Final = "flowfabric.principal"
BAD_SYNTAX: Final = "invalid JSON: Bad Request"
UNFINISHED_BYTES: Final = 64 * 1024 * 1024
SMALL_BODY: Final = 64 * 1024
CROWDED: Final = "too many large bodies arrive at once; retry with backoff"
BAD_TYPE: Final = "invalid JSON: Unsupported Media Type"


class Gate:
    """The ASGI application of a server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._router = Router(routes())
        self._handlers = {route.name: handler_of(route) for route in routes()}
        self._cross_site = CrossSite(server.settings.cors_origins, server.settings.public_url)
        self._decoders: dict[Any, msgspec.json.Decoder[Any]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        begin = time.perf_counter()
        headers = dict(scope["headers"])
        request_id = _request_id(headers)
        methods, parts = self._router.find(scope.get("raw_path") or scope["path"].encode())
        path = {name: part.decode("utf-8", "replace") for name, part in parts.items()}
        route = methods.get("GET" if scope["method"] == "HEAD" else scope["method"])
        REQUEST.set(request_id)
        EXECUTION.set(path["id"] if route is not None and route.names_execution else "")
        async with AsyncExitStack() as held:
            try:
                answer = await self._answer(scope, receive, headers, request_id, methods, route, parts, held)
                response = answer.response or Outgoing(scope, answer, request_id)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is answered
                answer = _refusal(_blamed(error, scope["method"], route), request_id)
                response = Outgoing(scope, answer, request_id)
            if route is not None and scope.get(audit.NEEDED, route.right) in audit.AUDITED:
                code = answer.value.code if answer.status >= 400 and answer.raw is None else ""
                audit.request(
                    route.method, route.path, path, scope.get(PRINCIPAL), answer.status, request_id, code
                )
            status = answer.status
            del answer  # what was written out needs no memory twice
            try:
                await response(scope, receive, send)
            except Exception:  # it has begun: all that is left is to break it off
                log.exception("an answer broke off: %s %s", scope["method"], _template(route))
                status = 500
        self._server.observe(scope["method"], _template(route), status, time.perf_counter() - begin)

    async def _answer(
        self,
        scope: Scope,
        receive: Receive,
        headers: dict[bytes, bytes],
        request_id: str,
        methods: dict[str, Route],
        route: Route | None,
        parts: dict[str, bytes],
        held: AsyncExitStack,
    ) -> Response:
        own_page = route is not None and route.own_page
        self._cross_site.check(scope["method"], scope["headers"], own_page=own_page)
        need = _need(methods, route)
        principal = await self._server.admit(headers, need)
        scope[PRINCIPAL] = principal
        authorize(principal, need)
        if not methods:
            raise HttpError(404, "no such route", "not_found", kind="not_found")
        if route is None:
            allowed = ", ".join(sorted({*methods, *(("HEAD",) if "GET" in methods else ())}))
            raise HttpError(
                405,
                f"use {allowed} here",
                "method_not_allowed",
                kind="method_not_allowed",
                headers=(("allow", allowed),),
            )
        path = check_path(parts)
        check_query(scope["query_string"])
        call = ServerCall(self._server, scope, principal, path, request_id)
        call.held = held
        await _confine(call, route)
        _check_encoding(scope["headers"])
        call.body = await self._body(route, headers, receive)
        call.receive = receive
        call.behalf = _behalf(headers, principal, route)
        if records.wanted(headers):
            return await records.answer(call, route)
        if route.query is not None:
            call.query = decode_query(route.query, scope["query_string"])
        return await self._handlers[route.name](call)

    async def _body(self, route: Route, headers: dict[bytes, bytes], receive: Receive) -> Any:
        data = await _read(route, headers, receive, self._server.unfinished)
        if route.body is None or (route.body_optional and not data):
            return None
        kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if route.form:
            if kind != FORM.encode():
                code = "unsupported_media_type"
                raise HttpError(415, f"{BAD_TYPE}: send {FORM}", code, kind=code)
            return decode_query(route.body, data)
        if kind != b"application/json" and not (kind.startswith(b"application/") and kind.endswith(b"+json")):
            code = "unsupported_media_type"
            raise HttpError(415, f"{BAD_TYPE}: send application/json", code, kind=code)
        decoder = self._decoders.get(route.body)
        if decoder is None:
            decoder = self._decoders[route.body] = msgspec.json.Decoder(route.body)
        return decode_body(decoder, data)


async def _confine(call: ServerCall, route: Route) -> None:
    """Keep a token that is bound to a namespace inside it, whatever it asks for and in whatever form.

    An execution of another namespace is not there; a route that does not keep to a namespace is closed.
    """
    bound = call.principal.namespace
    if not bound or route.right is Right.NOTHING:
        return
    if route.names_execution:
        await call.visible(call.execution_id)
    elif not route.bound:
        raise HttpError(
            403,
            f"this token is bound to namespace {bound}, and the route concerns all of them",
            "forbidden",
            kind="forbidden",
        )


def decode_body(decoder: msgspec.json.Decoder[Any], data: bytes) -> Any:
    """Read a JSON body: a fault of syntax is 400, of shape 422, and both say where."""
    try:
        try:
            data.decode()  # msgspec does not look into the text that it skips or keeps as it is
            return decoder.decode(data)
        except msgspec.ValidationError as error:
            msgspec.json.decode(data)  # of two faults that of the syntax is named, wherever it stands
            return _decode_without_nulls(decoder, data, error)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HttpError(400, f"{BAD_SYNTAX}: {error}", "invalid_input", kind="invalid_input") from error
    except RecursionError as error:
        raise HttpError(
            400, f"{BAD_SYNTAX}: nested too deep", "invalid_input", kind="invalid_input"
        ) from error


def _decode_without_nulls(decoder: msgspec.json.Decoder[Any], data: bytes, first: Exception) -> Any:
    """Read a body once more, without the nulls of optional fields: null means that a field is not given."""
    try:
        fields = msgspec.structs.fields(decoder.type)
        optional = {
            each.encode_name for each in fields if not each.required and Raw not in get_args(each.type)
        }
        given = msgspec.json.decode(data, type=dict[str, Raw])
        kept = {
            name: value for name, value in given.items() if name not in optional or bytes(value) != b"null"
        }
        if len(kept) < len(given):
            return decoder.decode(msgspec.json.encode(kept))
    except msgspec.ValidationError as error:
        raise _misshapen(str(error)) from error
    raise _misshapen(str(first)) from first


def _misshapen(message: str) -> HttpError:
    place = _PLACE.search(message)
    field = place[1] if place else ""
    if not field:
        named = re.search(r"field `(\w+)`", message)
        field = named[1] if named else ""
    return HttpError(422, f"{BAD_SHAPE}: {message}", "invalid_input", kind="invalid_input", field=field)


async def _read(route: Route, headers: dict[bytes, bytes], receive: Receive, unfinished: Unfinished) -> bytes:
    """Read the body, refusing one that is too large before it is read."""
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared) > route.limit:
        raise _too_large(route)
    if not declared and b"transfer-encoding" not in headers:
        return b""
    chunks: list[bytes] = []
    size = 0
    try:
        while True:
            message: Message = await receive()
            if message["type"] == "http.disconnect":
                raise HttpError(400, "the client went away", "invalid_input")
            chunk = message.get("body", b"")
            size += len(chunk)
            unfinished.held += len(chunk)
            if size > route.limit:
                raise _too_large(route)
            unfinished.check(size)
            chunks.append(chunk)
            if not message.get("more_body", False):
                return b"".join(chunks)
    finally:
        unfinished.held -= size


class Unfinished:
    """Request bodies of all connections that have not arrived whole, in bytes."""

    def __init__(self, most: int = UNFINISHED_BYTES) -> None:
        self.most = most
        self.held = 0

    def check(self, size: int) -> None:
        """Refuse to go on with a large body when all together are too many; small ones go on."""
        if size > SMALL_BODY and self.held > self.most and self.held > size:
            raise HttpError(
                503, CROWDED, "resource_exhausted", retryable=True, headers=(("connection", "close"),)
            )


def _check_encoding(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse a body that is compressed."""
    for name, value in headers:
        if name == b"content-encoding" and value.strip().lower() not in {b"", b"identity"}:
            raise HttpError(
                415,
                f"{BAD_TYPE}: Content-Encoding is not understood; send the body as it is",
                "unsupported_media_type",
                headers=(("accept-encoding", "identity"),),
            )


def _too_large(route: Route) -> HttpError:
    return HttpError(
        413,
        "payload_too_large",
        "payload_too_large",
        kind="payload_too_large",
        extra={"limit_bytes": route.limit, "route": route.path},
        headers=(("connection", "close"),),
    )


def _request_id(headers: dict[bytes, bytes]) -> str:
    given = headers.get(b"x-request-id", b"").decode("latin-1")
    return given if _REQUEST_ID.fullmatch(given) else new_uuid()


def _behalf(headers: dict[bytes, bytes], principal: Principal, route: Route) -> str:
    """Read on whose behalf an administrator acts, for the history; the audit names the token in any case."""
    given = headers.get(ON_BEHALF, b"")
    if not given or principal.role is not Role.ADMIN or route.right is Right.ADMIN:
        return ""
    return checks.name("actor", text_of("actor", unquote_to_bytes(given)))


def _need(methods: dict[str, Route], route: Route | None) -> Right | None:
    """Say what a request needs; a wrong method on a path that is open to everybody is no secret either."""
    if route is not None:
        return route.right
    open_path = methods and all(known.right is Right.NOTHING for known in methods.values())
    return Right.NOTHING if open_path else None


def _template(route: Route | None) -> str:
    return route.path if route else "unknown"


def _blamed(error: Exception, method: str, route: Route | None) -> HttpError:
    """Say what an error means to the caller, and log what is not the caller's fault."""
    if isinstance(error, HttpError):
        return error
    if isinstance(error, FlowFabricError):
        refusal = from_engine(error, classic=bool(route and route.classic), form=route and route.body)
        if refusal.status >= 500:
            log.error("%s %s failed", method, _template(route), exc_info=error)
        return refusal
    log.error("a defect while serving %s %s", method, _template(route), exc_info=error)
    return HttpError(500, "a defect of the server; nothing is lost", "internal_error")


def _refusal(error: HttpError, request_id: str) -> Response:
    return Response(error.body(request_id), error.status, headers=error.all_headers())
