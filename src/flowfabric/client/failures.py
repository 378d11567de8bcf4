"""Errors of the server, turned back into those of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from flowfabric.model.errors import (
    BY_CODE,
    Conflict,
    FlowFabricError,
    InternalError,
    InvalidInput,
    NotFound,
    ResourceExhausted,
    Unauthorized,
    Unreachable,
    from_code,
)

BY_STATUS: Final[dict[int, type[FlowFabricError]]] = {
    401: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    409: Conflict,
    413: BY_CODE["payload_too_large"],
    429: ResourceExhausted,
    502: Unreachable,
    503: Unreachable,
    504: Unreachable,
}
"""What an answer means whose body is not ours, or whose code this version does not know."""
_MAX_TEXT: Final = 500
UNEXPLAINED: Final = "the server answered"
"""How the text of an error begins whose body does not explain it."""


def failure(status: int, body: bytes) -> FlowFabricError:
    """Return the error that an answer tells."""
    try:
        told = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        told = None
    return told_failure(told if isinstance(told, dict) else {}, status)


def told_failure(told: Mapping[str, Any], status: int) -> FlowFabricError:
    """Return the error of an error body, or of one item of a batch."""
    code, field = str(told.get("cause") or told.get("code", "")), str(told.get("field") or "")
    given = told.get("details") or ()
    details = tuple(map(str, given)) if isinstance(given, list) else ()
    text = "" if "cause" in told else str(told.get("error", ""))
    if code in BY_CODE:
        return from_code(code, _plain(text, code, field, details), field, details)
    return _by_status(status)(text[:_MAX_TEXT] or f"{UNEXPLAINED} {status}", field=field)


def _by_status(status: int) -> type[FlowFabricError]:
    known = BY_STATUS.get(status)
    if known is not None:
        return known
    return InternalError if status >= 500 or status < 400 else InvalidInput


def _plain(text: str, code: str, field: str, details: tuple[str, ...]) -> str:
    """Take off what the server puts in front of a sentence: its family, its code, its details and its field."""
    if text.startswith("not found: "):
        return ""
    for prefix in ("contention: ", f"{code}: ", f"{','.join(details)}: " if details else "", f"{field}: "):
        text = text.removeprefix(prefix)
    return "" if text == code else text
