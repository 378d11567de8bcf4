"""Check a policy that is typed by hand: the engine would ignore a misspelt field."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, Union

from flowfabric.model import checks
from flowfabric.model.errors import invalid
from flowfabric.model.limits import MAX_PRIORITY
from flowfabric.model.policy import parse_policy

Fields = Mapping[str, Union["Fields", None]]

POLICY_FIELDS: Final[Fields] = {
    "priority": None,
    "delay_until": None,
    "retry_policy": {
        "max_retries": None,
        "backoff": dict.fromkeys(
            ("type", "delay_ms", "initial_delay_ms", "max_delay_ms", "multiplier", "jitter")
        ),
        "retryable_categories": None,
    },
    "timeout_policy": dict.fromkeys(("attempt_timeout_ms", "execution_deadline_ms", "max_reclaim_count")),
    "max_reclaim_count": None,
    "suspension_policy": dict.fromkeys(("default_timeout_ms", "timeout_behavior")),
    "fallback_policy": {"tiers": dict.fromkeys(("provider", "model", "timeout_ms"))},
    "max_replay_count": None,
    "budget_ids": None,
    "routing_requirements": dict.fromkeys(("required_capabilities", "preferred_locality", "isolation_level")),
    "dedup_window_ms": None,
    "stream_policy": dict.fromkeys(("durability_mode", "retention_maxlen", "retention_ttl_ms")),
    "max_signals_per_execution": None,
}
"""Every field of a policy, with the fields of nested objects and of objects in lists."""


def check_policy(text: bytes) -> None:
    """Raise `InvalidInput` for an invalid policy or for unknown fields, with the nearest known one."""
    parse_policy(text)
    policy = json.loads(text)
    unknown = list(_unknown_fields(policy, POLICY_FIELDS, ""))
    if unknown:
        raise invalid("policy", f"there is no {'; no '.join(unknown)}")
    checks.integer("policy.priority", policy.get("priority", 0), 0, MAX_PRIORITY)


def _unknown_fields(value: Any, fields: Fields, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from _unknown_fields(each, fields, f"{path.removesuffix('.')}[{index}].")
        return
    for name, inner in value.items():
        if name not in fields:
            yield f"{path}{name} ({_suggestion(name, fields, path)})"
        elif (below := fields[name]) is not None:
            yield from _unknown_fields(inner, below, f"{path}{name}.")


def _suggestion(name: str, fields: Fields, path: str) -> str:
    """Suggest the nearest field here, or where a field of this name belongs, or all fields here."""
    near = difflib.get_close_matches(name, fields, 1)
    if near:
        return f"did you mean {path}{near[0]}?"
    elsewhere = [f"{parent}{field}" for parent, field in iterate_fields(POLICY_FIELDS, "") if field == name]
    if elsewhere:
        return f"did you mean {elsewhere[0]}?"
    return f"there is {', '.join(fields)}"


def iterate_fields(fields: Fields, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of the parent and the name of every field."""
    for name, inner in fields.items():
        yield path, name
        yield from iterate_fields(inner or {}, f"{path}{name}.")
