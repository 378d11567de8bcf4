"""Traces for OpenTelemetry: a span for each request, and one below it for each thing that it asks of the store.

This module is loaded only where a provider is given or the environment asks for one (`telemetry`). Spans name routes,
commands, ids and outcomes; they never hold a body, a query, a raw path, a header, a token or a fence's lease.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from flowfabric.storage.extras import install_command

try:
    from opentelemetry import propagate
    from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, TracerProvider
except ImportError as error:  # pragma: no cover - seen only where the extra is not installed
    raise ImportError(f"traces need OpenTelemetry: {install_command('otel')}") from error

from flowfabric import __version__
from flowfabric.logs import TRACE
from flowfabric.model.command import Command, Question
from flowfabric.model.errors import FlowFabricError, Infrastructure
from flowfabric.model.operations.claim import Claimed
from flowfabric.model.operations.create import Created, Duplicate
from flowfabric.model.operations.grant import IssueReclaimGrant
from flowfabric.model.operations.lease import Renew
from flowfabric.server.http.routing import Router
from flowfabric.server.observe.metrics import METHODS
from flowfabric.storage.base import Upkeep
from flowfabric.wire import routes

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

R = TypeVar("R")
PROPAGATED: Final = frozenset(
    {"traceparent", "tracestate", "baggage", "b3", "uber-trace-id", "x-amzn-trace-id"}
)
NAMES: Final[dict[type, str]] = {Renew: "renew_lease", IssueReclaimGrant: "ff.reclaim_execution"}
"""Spans that operators know under other names than those of our commands."""
EXECUTIONS: Final = "/v1/executions/"
LONGEST_ID: Final = 64
_HUMP: Final = re.compile(r"(?<!^)(?=[A-Z])")


class ServerTracing:
    """Makes the spans of one server. A provider of the caller's stays the caller's."""

    def __init__(self, provider: TracerProvider, *, owned: bool = False) -> None:
        self._provider = provider
        self._owned = owned
        self.tracer: Tracer = provider.get_tracer("flowfabric.server", __version__)

    def around(self, app: ASGIApp) -> ASGIApp:
        """Trace what an application answers."""
        return TracedRequests(app, self.tracer)

    def beneath(self, store: Upkeep) -> Upkeep:
        """Trace what requests ask of a store."""
        return cast("Upkeep", TracedStore(store, self.tracer))

    async def close(self) -> None:
        """Hand over what was not sent yet."""
        if self._owned:
            await asyncio.to_thread(cast("Any", self._provider).shutdown)


class TracedRequests:
    """Stands before the gate: goes on with the trace of the caller, or begins one."""

    def __init__(self, app: ASGIApp, tracer: Tracer) -> None:
        self._app = app
        self._tracer = tracer
        self._router = Router(routes())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        methods, path = self._router.find(scope.get("raw_path") or scope["path"].encode())
        route = methods.get("GET" if scope["method"] == "HEAD" else scope["method"])
        method = scope["method"] if scope["method"] in METHODS else "_OTHER"
        template = route.path if route is not None else ""
        facts: dict[str, Any] = {"http.request.method": method, "url.scheme": scope.get("scheme", "http")}
        if template:
            facts["http.route"] = template
        if template.startswith(EXECUTIONS) and len(path["id"]) <= LONGEST_ID:
            facts["execution_id"] = path["id"].decode("utf-8", "replace")
        with self._tracer.start_as_current_span(
            f"{method} {template}" if template else method,
            context=propagate.extract(_carrier(scope)),
            kind=SpanKind.SERVER,
            attributes=facts,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            TRACE.set(format(span.get_span_context().trace_id, "032x"))
            await self._app(scope, receive, _noting(send, span))


def _carrier(scope: Scope) -> dict[str, str]:
    found = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
    return {name: value for name, value in found if name in PROPAGATED or name.startswith("x-b3-")}


def _noting(send: Send, span: Span) -> Send:
    async def noting(message: Message) -> None:
        if message["type"] == "http.response.start" and span.is_recording():
            status: int = message["status"]
            span.set_attribute("http.response.status_code", status)
            for name, value in message.get("headers", ()):
                if name == b"x-request-id":
                    span.set_attribute("request_id", value.decode("latin-1"))
            if status >= 500:
                span.set_status(StatusCode.ERROR)
                span.set_attribute("error.type", str(status))
        await send(message)

    return noting


class TracedStore:
    """Wraps a store. What asks for no decision and no answer goes through untouched."""

    def __init__(self, store: Upkeep, tracer: Tracer) -> None:
        self._store = store
        self._tracer = tracer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def apply(self, command: Command[R]) -> R:
        """Decide one command."""
        with self._span(span_name(type(command)), command) as span:
            reply = await self._store.apply(command)
            _note_reply(span, reply)
            return reply

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Decide several commands; one span for all of them, and below it one for each renewal."""
        with self._span("ff.apply_many") as span:
            span.set_attribute("count", len(commands))
            renewals = {
                place: self._tracer.start_span(span_name(Renew), attributes=_facts(command))
                for place, command in enumerate(commands)
                if isinstance(command, Renew)
            }
            try:
                replies = await self._store.apply_many(commands)
                for place, renewal in renewals.items():
                    _note_reply(renewal, replies[place])
            finally:
                for renewal in renewals.values():
                    renewal.end()
            span.set_attribute("refused", sum(isinstance(reply, FlowFabricError) for reply in replies))
            return replies

    async def read(self, question: Question[R]) -> R:
        """Answer a question."""
        with self._span(span_name(type(question)), question):
            return await self._store.read(question)

    @contextmanager
    def _span(self, name: str, command: object = None) -> Iterator[Span]:
        with self._tracer.start_as_current_span(
            name, attributes=_facts(command), record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except FlowFabricError as error:
                _note_refusal(span, error)
                raise
            except Exception as error:
                span.set_status(StatusCode.ERROR)
                span.set_attribute("error.type", type(error).__name__)
                raise


def _facts(command: object) -> dict[str, Any]:
    """Say what a command is about: the execution, and where a lease is held, its attempt and epoch."""
    fence = getattr(command, "fence", None)
    known = {
        "execution_id": getattr(command, "execution_id", ""),
        "attempt_id": getattr(fence, "attempt_id", ""),
    }
    facts: dict[str, Any] = {name: value for name, value in known.items() if value}
    if facts.get("attempt_id"):
        facts["lease_epoch"] = getattr(fence, "lease_epoch", -1)
    return facts


def _note_reply(span: Span, reply: object) -> None:
    if isinstance(reply, Created | Duplicate):
        span.set_attribute("execution_id", reply.execution_id)
    elif isinstance(reply, Claimed):
        span.set_attribute("count", len(reply.tasks))
    elif isinstance(reply, FlowFabricError):
        _note_refusal(span, reply)


def _note_refusal(span: Span, error: FlowFabricError) -> None:
    """A refusal is an answer; only what is wrong with the store itself is an error."""
    span.set_attribute("code", error.code)
    if isinstance(error, Infrastructure):
        span.set_status(StatusCode.ERROR)
        span.set_attribute("error.type", error.code)


@cache
def span_name(kind: type) -> str:
    """Name the spans of a command."""
    return NAMES.get(kind) or "ff." + _HUMP.sub("_", kind.__name__).lower()
