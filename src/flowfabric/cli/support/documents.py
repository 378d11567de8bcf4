"""JSON documents that `--json` prints. They have the shapes that the server answers with."""

from __future__ import annotations

import base64
from typing import Any

from flowfabric.app import Frame, Superseded
from flowfabric.model.operations.suspend_waitpoint import WaitpointView
from flowfabric.shapes import attempt as attempt_document
from flowfabric.shapes import event as event_document
from flowfabric.shapes import json_or_base64, present, summary, vector, waitpoint
from flowfabric.shapes import kind as kind_document

__all__ = [
    "attempt_document",
    "event_document",
    "frame_document",
    "json_or_base64",
    "kind_document",
    "present",
    "summary",
    "superseded_document",
    "vector",
    "waitpoint_document",
]


def waitpoint_document(view: WaitpointView) -> dict[str, Any]:
    """Return an open waitpoint, with the reason for which its execution waits."""
    return waitpoint(view) | {"reason": view.reason_code}


def frame_document(frame: Frame) -> dict[str, Any]:
    """Return one frame of a stream."""
    document: dict[str, Any] = {
        "position": frame.position,
        "attempt": frame.attempt,
        "lease_epoch": frame.lease_epoch,
        "type": frame.type,
        "at": frame.at,
    }
    return document | ({"step": frame.step} if frame.step else {}) | _payload(frame)


def _payload(frame: Frame) -> dict[str, str]:
    try:
        return {"payload": frame.text}
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(frame.payload).decode()}


def superseded_document(item: Superseded) -> dict[str, Any]:
    """Return which frames of a stream are superseded."""
    return {
        "position": item.position,
        "attempt": item.attempt,
        "superseded": {
            "lease_epoch": item.lease_epoch,
            "from": item.first,
            "to": item.last,
            "by_epoch": item.by_epoch,
            "kept_steps": list(item.kept_steps),
        },
    }
