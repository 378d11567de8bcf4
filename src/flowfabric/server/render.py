"""Shapes that several answers share."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from flowfabric.model.operations.stream import FrameView
from flowfabric.model.views import SignalView
from flowfabric.server.forms import text_or_base64
from flowfabric.shapes import JSON, embedded, json_or_base64

__all__ = ["JSON", "embedded", "frame_fields", "json_or_base64", "signals"]


def signals(views: Iterable[SignalView]) -> list[dict[str, Any]]:
    """Show the signals that ended a wait."""
    return [
        {
            "signal_id": view.signal_id,
            "signal_name": view.signal_name,
            "signal_category": view.signal_category,
            "source_type": view.source_type,
            "source_identity": view.source_identity,
            "correlation_id": view.correlation_id,
            "accepted_at": view.accepted_at,
            "payload_encoding": view.payload_encoding,
        }
        | text_or_base64(view.payload)
        for view in views
    ]


def frame_fields(view: FrameView) -> dict[str, str]:
    """Show what a frame holds, all of it as text; bytes that are no text come as base64 and say so."""
    frame = view.frame
    try:
        payload, encoding = frame.payload.decode(), frame.encoding
    except UnicodeDecodeError:
        payload, encoding = base64.b64encode(frame.payload).decode(), "base64"
    fields = {
        "frame_type": frame.frame_type, "ts": str(frame.ts), "payload": payload, "encoding": encoding,
        "source": frame.source, "mode": frame.mode,
    }  # fmt: skip
    further = {
        "correlation_id": frame.correlation_id,
        "summary_version": str(frame.summary_version or ""),
        "ttl_ms": str(frame.ttl_ms or ""),
        "metadata_json": frame.metadata_json,
        "lease_epoch": str(frame.lease_epoch or ""),
        "step": frame.step,
    }
    return fields | {name: text for name, text in further.items() if text}
