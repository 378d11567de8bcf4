"""JSON documents that `--json` prints. They have the shapes that the server answers with."""

from __future__ import annotations

import base64
from typing import Any

from flowfabric.app import Frame, Superseded


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
