"""The policy of an execution: how it retries, times out, suspends and is kept.

The JSON text that the caller sent is stored as it came; what is decided by it is this small record.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from msgspec import Struct

from flowfabric.model import checks, limits
from flowfabric.model.errors import FlowFabricError, invalid, refuse
from flowfabric.model.policy_fields import Fields

FAILURE_CATEGORIES: Final = ("transient", "permanent", "infra_crash", "timeout", "cancelled")
"""Known categories; any other text is allowed and counts as `transient`."""

FINAL_CATEGORIES: Final = ("permanent", "cancelled", "invalid_input", "step_mismatch")
"""What another attempt cannot mend, because the same input meets the same code: never tried again."""

STORED_TIMEOUT_BEHAVIORS: Final = ("fail", "cancel", "expire", "auto_resume_with_timeout_signal", "escalate")
"""What happens to a suspension whose time is over."""

DEFAULT_DELAY_MS: Final = 1_000
DEFAULT_MAX_DELAY_MS: Final = 60_000
DEFAULT_MULTIPLIER: Final = 2.0

MAX_BACKOFF_STEPS: Final = 1_000
"""A multiplier just above 1 may need millions of steps to reach its cap: this many must do."""

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Policy(Struct, frozen=True, array_like=True, gc=False):
    """What a policy decides, with every default filled in."""

    version: int = 1
    max_retries: int = -1
    """-1: there is no retry policy."""
    backoff: str = ""
    """`exponential`, `fixed`, or empty without a retry policy."""
    delay_ms: int = 0
    initial_delay_ms: int = 0
    max_delay_ms: int = 0
    multiplier: float = 0.0
    jitter: bool = False
    retryable_categories: tuple[str, ...] = ()
    attempt_timeout_ms: int = 0
    """0, here and in the other times: no limit."""
    execution_deadline_ms: int = 0
    max_reclaim_count: int = -1
    """-1: not given."""
    suspension_timeout_ms: int = 0
    suspension_timeout_behavior: str = "fail"
    max_replay_count: int = limits.DEFAULT_MAX_REPLAYS
    required_capabilities: tuple[str, ...] = ()
    dedup_window_ms: int = limits.DEFAULT_DEDUP_MS
    stream_maxlen: int = limits.STREAM_MAXLEN
    retention_ms: int = limits.DEFAULT_RETENTION_MS
    max_signals: int = limits.MAX_SIGNALS
    """0: as many as come."""
    priority: int = -1
    """-1: not given."""
    delay_until: int = 0
    budget_ids: tuple[str, ...] = ()


NO_POLICY: Final = Policy()
"""What holds for an execution that was created without a policy."""


def parse_policy(text: str | bytes) -> Policy:
    """Read the JSON text of a policy; the refusal names the field and what is wrong with it."""
    odd: list[str] = []
    root = Fields(_decode(text, odd) if text else {})
    if not root.values:
        return NO_POLICY
    retry = _read_retry(root)
    timeout = root.inner("timeout_policy")
    suspension = root.inner("suspension_policy")
    stream = root.inner("stream_policy")
    stream.choice("durability_mode", ("buffered", "durable"), "buffered")
    _check_fallback(root.inner("fallback_policy"))
    policy = Policy(
        max_retries=retry.max_retries,
        backoff=retry.backoff,
        delay_ms=retry.delay_ms,
        initial_delay_ms=retry.initial_delay_ms,
        max_delay_ms=retry.max_delay_ms,
        multiplier=retry.multiplier,
        jitter=retry.jitter,
        retryable_categories=retry.retryable_categories,
        attempt_timeout_ms=timeout.integer("attempt_timeout_ms", 0),
        execution_deadline_ms=timeout.integer("execution_deadline_ms", 0),
        max_reclaim_count=root.count("max_reclaim_count", timeout.count("max_reclaim_count", -1)),
        suspension_timeout_ms=suspension.integer("default_timeout_ms", 0),
        suspension_timeout_behavior=_read_behavior(suspension),
        max_replay_count=root.count("max_replay_count", limits.DEFAULT_MAX_REPLAYS),
        required_capabilities=_read_capabilities(root),
        dedup_window_ms=root.integer("dedup_window_ms", limits.DEFAULT_DEDUP_MS),
        stream_maxlen=stream.integer("retention_maxlen", 0) or limits.STREAM_MAXLEN,
        retention_ms=stream.integer("retention_ttl_ms", limits.DEFAULT_RETENTION_MS),
        max_signals=root.count("max_signals_per_execution", limits.MAX_SIGNALS),
        priority=_read_priority(root),
        delay_until=root.integer("delay_until", 0),
        budget_ids=_read_budgets(root),
    )
    if odd:
        raise _refused("malformed", f"{odd[0]} is not a JSON number")
    return policy


def may_retry(policy: Policy, category: str, retry_count: int) -> bool:
    """Tell whether a failure of this category, after so many retries, earns another one."""
    if category in FINAL_CATEGORIES or retry_count >= policy.max_retries:
        return False
    allowed = policy.retryable_categories
    if not allowed or category in allowed:
        return True
    return "transient" in allowed and category not in FAILURE_CATEGORIES


def backoff_ms(policy: Policy, retry_count: int, chance: float) -> int:
    """How long to wait before the next retry; `retry_count` counts those before it, `chance` is in [0, 1)."""
    if policy.backoff == "exponential":
        delay = _exponential(policy, retry_count)
    elif policy.backoff == "fixed":
        delay = policy.delay_ms
    else:
        delay = DEFAULT_DELAY_MS
    if not policy.jitter:
        return delay
    low = delay - delay // 2
    return min(low + int(chance * (delay - low + 1)), delay)


def timeout_behavior(text: str, field: str = "timeout_behavior") -> str:
    """Check what shall happen at a timeout, and give it its one name."""
    full = "auto_resume_with_timeout_signal" if text == "auto_resume" else text
    if full not in STORED_TIMEOUT_BEHAVIORS:
        raise invalid(field, f"must be one of {', '.join(STORED_TIMEOUT_BEHAVIORS)}")
    return full


def _exponential(policy: Policy, retry_count: int) -> int:
    delay = float(policy.initial_delay_ms)
    for _ in range(min(retry_count, MAX_BACKOFF_STEPS)):
        if delay >= policy.max_delay_ms:
            break
        delay *= policy.multiplier
    return int(min(delay, policy.max_delay_ms))


def _decode(text: str | bytes, odd: list[str]) -> dict[str, Any]:
    """Parse the text into its root object; literals that are no JSON become NaN and are noted in `odd`."""

    def constant(literal: str) -> float:
        odd.append(literal)
        return math.nan

    try:
        plain = text.decode() if isinstance(text, bytes) else text
        size = len(plain.encode())
        # The first digits of an endless integer are enough to see that it is too large.
        value = json.loads(plain, parse_int=lambda digits: int(digits[:20]), parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise _refused("malformed", "the policy is not JSON") from error
    if size > limits.MAX_POLICY_BYTES:
        raise _refused("too_large", f"the policy is larger than {limits.MAX_POLICY_BYTES} bytes")
    if not isinstance(value, dict):
        raise refuse(
            "invalid_policy_json", "not_object", text="the policy must be a JSON object", field="policy"
        )
    return value


def _refused(reason: str, text: str) -> FlowFabricError:
    return refuse("invalid_policy_json", reason, text=text, field="policy")


def _read_retry(root: Fields) -> Policy:
    if not root.has("retry_policy"):
        return NO_POLICY
    retry = root.inner("retry_policy")
    kind, backoff = "exponential", retry.inner("backoff")
    if retry.has("backoff"):
        kind = backoff.choice("type", ("exponential", "fixed"), "")
    exponential = kind == "exponential"
    return Policy(
        max_retries=retry.count("max_retries", limits.DEFAULT_MAX_RETRIES),
        backoff=kind,
        delay_ms=backoff.integer("delay_ms", 0 if exponential else DEFAULT_DELAY_MS),
        initial_delay_ms=backoff.integer("initial_delay_ms", DEFAULT_DELAY_MS if exponential else 0),
        max_delay_ms=backoff.integer("max_delay_ms", DEFAULT_MAX_DELAY_MS if exponential else 0),
        multiplier=backoff.number("multiplier", DEFAULT_MULTIPLIER if exponential else 0.0),
        jitter=backoff.boolean("jitter"),
        retryable_categories=retry.texts("retryable_categories"),
    )


def _read_behavior(suspension: Fields) -> str:
    return timeout_behavior(
        suspension.choice("timeout_behavior", (*STORED_TIMEOUT_BEHAVIORS, "auto_resume"), "fail")
    )


def _read_priority(root: Fields) -> int:
    if not root.has("priority"):
        return -1
    return min(max(root.integer("priority", 0, -(2**31), 2**31 - 1), 0), limits.MAX_PRIORITY)


def _read_budgets(root: Fields) -> tuple[str, ...]:
    budget_ids = root.texts("budget_ids")
    for index, budget_id in enumerate(budget_ids):
        if not _UUID.fullmatch(budget_id):
            raise root.wrong(f"budget_ids[{index}]", "not_uuid", "must be a UUID in lower case with hyphens")
    return budget_ids


def _check_fallback(fallback: Fields) -> None:
    for tier in fallback.inners("tiers"):
        tier.string("provider")
        tier.string("model")
        tier.integer("timeout_ms", 0)


def _read_capabilities(root: Fields) -> tuple[str, ...]:
    routing = root.routing()
    routing.string("preferred_locality")
    routing.string("isolation_level")
    if not routing.has("required_capabilities"):
        return ()
    return checks.required_capabilities(routing.values["required_capabilities"])
