"""A layer that logs and traces store calls and handlers."""

from __future__ import annotations

import logging
import time
from typing import Any

from flowfabric.model.errors import FlowFabricError
from flowfabric.worker.layers.base import HandlerCall, Layer

log = logging.getLogger("flowfabric.calls")


class Tracing(Layer):
    """Logs every store call to the logger `flowfabric.calls`; with an OpenTelemetry tracer it also makes spans.

    Each handler has a span (`task <kind>`). Each call has one (`ff_sdk.backend`), a child of the handler's span if a
    handler makes the call.
    """

    def __init__(self, level: int = logging.INFO, tracer: Any = None) -> None:
        self._level = level
        self._tracer = tracer

    def after(self, method: str, seconds: float, error: FlowFabricError | None) -> None:
        """Log the call, and record its span."""
        micros = round(seconds * 1_000_000)
        log.log(
            self._level,
            "engine_backend.call method=%s elapsed_us=%d ok=%s",
            method,
            micros,
            error is None,
            extra={"method": method, "elapsed_us": micros, "ok": error is None},
        )
        if self._tracer is not None:
            end = time.time_ns()
            span = self._tracer.start_span(
                "ff_sdk.backend",
                start_time=end - micros * 1_000,
                attributes={"method": method, "ok": error is None},
            )
            span.add_event("engine_backend.call", {"elapsed_us": micros, "ok": error is None}, end)
            span.end(end)

    async def handle(self, kind: str, execution_id: str, run: HandlerCall) -> Any:
        """Run a handler inside a span, the parent of the spans of its calls."""
        if self._tracer is None:
            return await run()
        names = {"kind": kind, "execution_id": execution_id}
        with self._tracer.start_as_current_span(f"task {kind}", attributes=names):
            return await run()
