"""Defaults of a kind, applied to one submission: whatever the caller left out comes from the kind."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.records import Kind

DEFAULT_LANE: Final = "default"
_ROUTING: Final = "routing_requirements"
_CAPABILITIES: Final = "required_capabilities"


def with_defaults(command: CreateExecution, kind: Kind | None) -> CreateExecution:
    """Return the command with the defaults of its kind; an empty lane is one that the caller left out."""
    if kind is None:
        return command if command.lane_id else replace(command, lane_id=DEFAULT_LANE)
    own = _own_policy(command.policy)
    says_priority = command.priority is not None or "priority" in (own or ())
    return replace(
        command,
        lane_id=command.lane_id or kind.lane or DEFAULT_LANE,
        priority=command.priority if says_priority else kind.priority,
        tags=tuple(sorted((dict(kind.tags) | dict(command.tags)).items())),
        fairness_key=command.fairness_key or kind.fairness_key,
        policy=_merged(command.policy, own, kind),
    )


def _own_policy(text: bytes) -> dict[str, Raw] | None:
    """Read the caller's policy; none for one that the store will refuse."""
    try:
        return msgspec.json.decode(text, type=dict[str, Raw]) if text else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _merged(text: bytes, own: dict[str, Raw] | None, kind: Kind) -> bytes:
    """Put the keys of the caller's policy over those of the kind's."""
    if own is None or not (kind.policy or kind.required_capabilities):
        return text
    policy: dict[str, Any] = msgspec.json.decode(kind.policy, type=dict[str, Raw]) if kind.policy else {}
    if kind.required_capabilities:
        routing = msgspec.json.decode(policy.get(_ROUTING, b"{}"), type=dict[str, Raw])
        policy[_ROUTING] = {**routing, _CAPABILITIES: kind.required_capabilities}
    return msgspec.json.encode(policy | own)
