"""Whether the environment asks for traces: OpenTelemetry's own variables say so, and its package reads the rest."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from flowfabric import __version__
from flowfabric.storage.extras import install_command

if TYPE_CHECKING:
    from flowfabric.server.observe.tracing import ServerTracing

EXPORTER: Final = "OTEL_TRACES_EXPORTER"
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
HTTP: Final = "http/protobuf"
SERVICE: Final = "flowfabric-server"

log = logging.getLogger("flowfabric.server")


def wanted(environ: Mapping[str, str]) -> str:
    """Return where traces shall go: `otlp`, `console`, or nowhere."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ""
    default = "otlp" if any(environ.get(name) for name in ENDPOINTS) else ""
    asked = environ.get(EXPORTER, "").strip().lower() or default
    if asked not in {"otlp", "console", "none", ""}:
        log.warning("%s: there is otlp, console and none; no traces are sent", EXPORTER)
    return asked if asked in {"otlp", "console"} else ""


def tracing_from(environ: Mapping[str, str]) -> ServerTracing | None:
    """Set traces up, if the environment asks for them and the extra is installed."""
    exporter = wanted(environ)
    if not exporter:
        return None
    try:
        from flowfabric.server.observe.tracing import ServerTracing  # noqa: PLC0415 - needs the extra

        provider = _provider(exporter, environ)
    except ImportError:
        log.warning("traces are asked for, but OpenTelemetry is missing: %s", install_command("otel"))
        return None
    log.info("traces go to exporter=%s", exporter)
    return ServerTracing(provider, owned=True)


def _provider(exporter: str, environ: Mapping[str, str]) -> Any:
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - needs the extra
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import (  # noqa: PLC0415
        BatchSpanProcessor,
        ConsoleSpanExporter,
        SpanExporter,
    )

    facts = {"service.version": __version__}
    if not environ.get("OTEL_SERVICE_NAME") and "service.name" not in environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    ):
        facts["service.name"] = SERVICE
    sending: SpanExporter
    if exporter == "console":
        sending = ConsoleSpanExporter()
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

        if any(environ.get(name, HTTP) != HTTP for name in PROTOCOLS):
            log.warning("%s: traces are sent by %s and nothing else", PROTOCOLS[0], HTTP)
        sending = OTLPSpanExporter()
    provider = TracerProvider(resource=Resource.create(facts), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(sending))
    return provider
