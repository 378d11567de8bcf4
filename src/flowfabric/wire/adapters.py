"""Fields that look different on the wire than in the engine, wherever they occur."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Raw

from flowfabric.model import checks
from flowfabric.wire.fields import FenceBody, optional_json


def _text_of(value: Raw) -> str:
    return optional_json(value).decode()


def _raw(text: str) -> Raw | None:
    return Raw(text.encode()) if text else None


IN: Final[Mapping[str, Callable[[Any], Any]]] = {
    "fence": FenceBody.fence,
    "tags": checks.tags,
    "required_capabilities": checks.required_capabilities,
    "details": _text_of,
    "policy": _text_of,
    "input_schema": _text_of,
}
"""From a field of a body to that of a command."""

OUT: Final[Mapping[str, Callable[[Any], Any]]] = {
    "fence": FenceBody.of,
    "tags": dict,
    "namespace": lambda name: name or None,
    "details": _raw,
    "policy": _raw,
    "input_schema": _raw,
}
"""From a field of a command to that of a body; None leaves it out."""
