"""Defaults of a kind, applied to one submission: whatever the caller left out comes from the kind."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from flowfabric.model.contracts.create import CreateExecution
from flowfabric.model.records import Kind

DEFAULT_LANE: Final = "default"
_ROUTING: Final = "routing_requirements"
_CAPABILITIES: Final = "required_capabilities"


def with_defaults(command: CreateExecution, kind: Kind | None) -> CreateExecution:
    """Return the command with the defaults of its kind; an empty lane is one that the caller left out."""
    if kind is None:
        return command if command.lane_id else replace(command, lane_id=DEFAULT_LANE)
    return replace(
        command,
        lane_id=command.lane_id or kind.lane or DEFAULT_LANE,
        priority=kind.priority if command.priority is None else command.priority,
        tags=tuple(sorted((dict(kind.tags) | dict(command.tags)).items())),
        fairness_key=command.fairness_key or kind.fairness_key,
        policy=_policy(command.policy, kind),
    )


def _policy(given: bytes, kind: Kind) -> bytes:
    """Put the keys of the caller's policy over those of the kind's."""
    if not kind.policy and not kind.required_capabilities:
        return given
    try:
        own = msgspec.json.decode(given, type=dict[str, Raw]) if given else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return given  # the store says what is wrong with it
    defaults: dict[str, Any] = msgspec.json.decode(kind.policy, type=dict[str, Raw]) if kind.policy else {}
    if kind.required_capabilities:
        routing = msgspec.json.decode(defaults.get(_ROUTING, b"{}"), type=dict[str, Raw])
        defaults[_ROUTING] = {**routing, _CAPABILITIES: kind.required_capabilities}
    return msgspec.json.encode({**defaults, **own})
