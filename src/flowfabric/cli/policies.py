"""Policies as they are typed: every field is one that the engine reads, because a misspelt one would decide nothing."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, Union

from flowfabric.model import checks
from flowfabric.model.errors import invalid
from flowfabric.model.limits import MAX_PRIORITY
from flowfabric.model.policy import parse_policy

Form = Mapping[str, Union["Form", None]]

FORM: Final[Form] = {
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
"""Every field of a policy; those of an inner object, or of the objects in a list, below it."""


def check_policy(text: bytes) -> None:
    """Refuse a policy with fields that nobody reads, naming them and the nearest known; and whatever else is wrong."""
    parse_policy(text)
    policy = json.loads(text)
    unknown = list(_unknown(policy, FORM, ""))
    if unknown:
        raise invalid("policy", f"there is no {'; no '.join(unknown)}")
    checks.integer("policy.priority", policy.get("priority", 0), 0, MAX_PRIORITY)


def _unknown(value: Any, form: Form, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from _unknown(each, form, f"{path.removesuffix('.')}[{index}].")
        return
    for name, inner in value.items():
        if name not in form:
            yield f"{path}{name} ({_instead(name, form, path)})"
        elif (below := form[name]) is not None:
            yield from _unknown(inner, below, f"{path}{name}.")


def _instead(name: str, form: Form, path: str) -> str:
    """Name the nearest field here, else where a field of this name belongs, else all that there are here."""
    near = difflib.get_close_matches(name, form, 1)
    if near:
        return f"did you mean {path}{near[0]}?"
    places = [f"{place}{field}" for place, field in fields_of(FORM, "") if field == name]
    if places:
        return f"did you mean {places[0]}?"
    return f"there is {', '.join(form)}"


def fields_of(form: Form, path: str) -> Iterator[tuple[str, str]]:
    """Yield every field: where it is, and its name."""
    for name, inner in form.items():
        yield path, name
        yield from fields_of(inner or {}, f"{path}{name}.")
