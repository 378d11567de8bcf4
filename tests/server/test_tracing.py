"""Traces: one span for each request, those of the store below it, and nothing secret in any of them."""

from __future__ import annotations

import asyncio
import http.server
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from flowfabric.logs import JsonLines
from flowfabric.model.errors import StoreUnusable
from flowfabric.server.observe.telemetry import tracing_from, wanted
from flowfabric.server.observe.tracing import ServerTracing, span_name
from flowfabric.server.server import Server
from flowfabric.storage.extras import install_command
from support.process import started
from support.server import Api
from support.serving import Serve
from support.work import act, claim, create, path

pytestmark = pytest.mark.one_store

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
TRACEPARENT = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


class Seen:
    """A server whose spans are kept."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = ServerTracing(provider)
        self.api: Api

    async def spans(self, name: str, count: int = 1) -> list[ReadableSpan]:
        """Return spans of this name; a request's span ends a moment after its answer."""
        async with asyncio.timeout(10):
            while True:
                found = [span for span in self._exporter.get_finished_spans() if span.name == name]
                if len(found) >= count:
                    return found
                await asyncio.sleep(0)

    async def span(self, name: str) -> tuple[ReadableSpan, dict[str, Any]]:
        (found,) = await self.spans(name)
        return found, dict(found.attributes or {})

    def text(self) -> str:
        return "".join(span.to_json() for span in self._exporter.get_finished_spans())


@pytest.fixture
async def seen(serve: Serve) -> Seen:
    kept = Seen()
    kept.api = await serve(tracing=kept.tracing, api_token="very-secret", token="very-secret")
    return kept


async def test_a_request_is_a_span_with_its_store_below(seen: Seen) -> None:
    execution_id = await create(seen.api)
    headers = {**TRACEPARENT, "X-Request-Id": "mine-1"}
    reply = await seen.api.call("GET", path(execution_id, "state"), headers=headers)
    assert reply.status == 200
    request, facts = await seen.span("GET /v1/executions/{id}/state")
    assert request.kind is SpanKind.SERVER
    assert facts == {
        "http.request.method": "GET",
        "http.route": "/v1/executions/{id}/state",
        "url.scheme": "http",
        "http.response.status_code": 200,
        "request_id": "mine-1",
        "execution_id": execution_id,
    }
    assert request.parent is not None
    assert (format(request.context.trace_id, "032x"), format(request.parent.span_id, "016x")) == (
        TRACE,
        PARENT,
    )
    below, asked = await seen.span("ff.describe")
    assert below.parent is not None
    assert below.parent.span_id == request.context.span_id
    assert asked == {"execution_id": execution_id}


async def test_without_a_caller_a_trace_begins(seen: Seen) -> None:
    for headers in ({}, {"traceparent": "00-zz-1"}, {"traceparent": "é"}):
        await seen.api.call("GET", "/livez", headers=headers)
    spans = await seen.spans("GET /livez", 3)
    assert all(span.parent is None for span in spans)
    assert len({span.context.trace_id for span in spans}) == 3


async def test_operations_have_the_names_that_operators_know(seen: Seen) -> None:
    await create(seen.api)
    task = await claim(seen.api)
    held = {"execution_id": task["execution_id"], "attempt_id": task["attempt_id"], "lease_epoch": 1}
    await act(seen.api, task, "renew", lease_ttl_ms=30_000)
    assert (await seen.span("renew_lease"))[1] == held
    fences = [{"execution_id": task["execution_id"], **task["fence"]}]
    await seen.api.post("/v1/workers/w1/renew", {"fences": fences})
    spans = await seen.spans("renew_lease", 2)
    assert dict(spans[1].attributes or {}) == held
    assert (await seen.span("ff.apply_many"))[1] == {"count": 1, "refused": 0}
    assert (await seen.span("ff.claim"))[1]["count"] == 1
    assert (await seen.span("ff.create_execution"))[1]["execution_id"] == task["execution_id"]
    await act(seen.api, task, "suspend", signals=["go"])
    await seen.api.get(path(task["execution_id"], "attempts", "0", "stream"))
    assert (await seen.span("ff.read_stream"))[1]["execution_id"] == task["execution_id"]
    assert {span_name(kind) for kind in _kinds()} >= {
        "ff.deliver_signal",
        "ff.reclaim_execution",
        "ff.read_stream",
    }


def _kinds() -> Iterator[type]:
    from flowfabric.model.operations.catalog import decidable  # noqa: PLC0415 - only here

    yield from decidable()


async def test_a_refusal_is_an_answer_and_a_fault_is_an_error(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = "{fp:0}:0b8f2a52-5f0e-4c41-9a7d-2f1f6f1f9a10"
    assert (await seen.api.get(path(missing, "history"))).status == 404
    request, facts = await seen.span("GET /v1/executions/{id}/history")
    below, asked = await seen.span("ff.read_history")
    assert (facts["http.response.status_code"], asked["code"]) == (404, "execution_not_found")
    assert {request.status.status_code, below.status.status_code} == {StatusCode.UNSET}

    async def broken(_: object) -> None:
        raise StoreUnusable

    monkeypatch.setattr(seen.api.store, "read", broken)
    assert (await seen.api.get("/readyz")).status == 500
    request, facts = await seen.span("GET /readyz")
    below, asked = await seen.span("ff.list_kids")
    assert {request.status.status_code, below.status.status_code} == {StatusCode.ERROR}
    assert (facts["error.type"], asked["error.type"]) == ("500", StoreUnusable.code)


async def test_nothing_secret_is_in_a_span(seen: Seen) -> None:
    await create(seen.api, input_payload=list(b'"private-input"'), tags={"team": "private-tag"})
    task = await claim(seen.api)
    waiting = (await act(seen.api, task, "suspend", signals=["go"]))["Suspended"]
    where = path(task["execution_id"], "waitpoints", waiting["waitpoint_id"])
    link = (await seen.api.post(f"{where}/link", {"signal_name": "go", "expires_in_ms": 60_000})).json["url"]
    signed = link.rpartition("/")[2]
    assert (await seen.api.get(f"/links/{signed}")).status == 200
    assert (await seen.api.get(f"{where}/token")).status == 200
    made = (await seen.api.post("/v1/admin/tokens", {"name": "n", "role": "reader"})).json["token"]
    rotated = {"new_kid": "k2", "new_secret_hex": "ab" * 32}
    assert (await seen.api.post("/v1/admin/rotate-waitpoint-secret", rotated)).status == 200
    await seen.api.get("/v1/executions?lane=private-query")
    await seen.api.call("PROPFIND", "/private-path")
    assert await seen.spans("_OTHER")
    text = seen.text()
    assert task["execution_id"] in text
    for secret in (
        "very-secret",
        waiting["waitpoint_token"],
        signed,
        made,
        "ab" * 32,
        "private",
        task["fence"]["lease_id"],
    ):
        assert secret not in text, secret


async def test_what_runs_by_itself_has_no_spans(seen: Seen) -> None:
    await seen.api.server.engine.__aexit__(None, None, None)
    await seen.api.server.engine.__aenter__()
    await seen.api.get("/livez")
    await seen.spans("GET /livez")
    assert "ff." not in seen.text()


async def test_log_lines_carry_the_trace(seen: Seen, caplog: pytest.LogCaptureFixture) -> None:
    lines: list[str] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(JsonLines().format(record))

    keeping = Keeping()
    logging.getLogger("flowfabric.audit").addHandler(keeping)
    await seen.api.call("POST", "/v1/lanes/default/pause", headers=TRACEPARENT)
    logging.getLogger("flowfabric.audit").removeHandler(keeping)
    assert any(f'"trace_id": "{TRACE}"' in line for line in lines), lines


@pytest.mark.parametrize(
    ("environ", "exporter"),
    [
        ({}, ""),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "otlp"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, ""),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}, ""),
    ],
)
def test_the_environment_asks_for_traces(environ: dict[str, str], exporter: str) -> None:
    assert wanted(environ) == exporter


async def test_without_being_asked_nothing_is_traced(serve: Serve) -> None:
    api = await serve()
    assert api.server.tracing is None
    assert type(api.server.store).__name__ == "Metered"
    assert tracing_from({}) is None


def test_nothing_is_loaded_that_nobody_asked_for() -> None:
    look = (
        "import sys, flowfabric.server.server, flowfabric.server.boot; print('opentelemetry' in sys.modules)"
    )
    told = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=30
    )
    assert told.stdout.strip() == "False"


async def test_without_the_extra_the_server_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "flowfabric.server.observe.tracing", None)
    assert tracing_from({"OTEL_TRACES_EXPORTER": "otlp"}) is None
    assert install_command("otel") in caplog.text


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes what is sent to it."""

    taken: list[ExportTraceServiceRequest]

    def do_POST(self) -> None:
        request = ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["content-length"])))
        self.taken.append(request)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_server_sends_its_traces_to_a_collector(tmp_path: Path) -> None:
    taken: list[ExportTraceServiceRequest] = []
    collector = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Taking", (Collector,), {"taken": taken})
    )
    thread = threading.Thread(target=collector.serve_forever)
    thread.start()
    try:
        endpoint = f"http://127.0.0.1:{collector.server_port}"
        with started(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint) as server:
            server.wait_until_ready()
            server.submit()
            assert server.end() == 0, server.said()
    finally:
        collector.shutdown()
        thread.join()
        collector.server_close()
    assert "traces go to exporter=otlp" in server.said()
    resources = [each.resource for request in taken for each in request.resource_spans]
    services = {
        fact.value.string_value
        for each in resources
        for fact in each.attributes
        if fact.key == "service.name"
    }
    assert services == {"flowfabric-server"}
    names = {
        span.name
        for request in taken
        for each in request.resource_spans
        for scope in each.scope_spans
        for span in scope.spans
    }
    assert {"POST /v1/submit", "ff.create_execution", "GET /healthz"} <= names


async def test_a_provider_of_the_caller_stays_open(seen: Seen) -> None:
    assert isinstance(seen.api.server, Server)
    await seen.tracing.close()
    await seen.api.get("/livez")
    assert await seen.spans("GET /livez")
