from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowfabric.model import limits
from flowfabric.model.errors import FlowFabricError, InvalidInput
from flowfabric.model.policy import (
    FAILURE_CATEGORIES,
    FINAL_CATEGORIES,
    NO_POLICY,
    Policy,
    backoff_ms,
    may_retry,
    parse_policy,
    timeout_behavior,
)

UUID = "0b1c2d3e-4f50-4162-8374-95a6b7c8d9e0"


def refusal(policy: Any) -> tuple[str, tuple[str, ...], str]:
    text = policy if isinstance(policy, str | bytes) else json.dumps(policy)
    with pytest.raises(InvalidInput) as caught:
        parse_policy(text)
    return caught.value.code, caught.value.details, caught.value.field


@pytest.mark.parametrize("text", ["", b"", "{}", b"{}", " { } "])
def test_nothing_said_is_no_policy(text: str | bytes) -> None:
    assert parse_policy(text) is NO_POLICY


def test_defaults_without_policy() -> None:
    assert (
        Policy(
            max_replay_count=10,
            dedup_window_ms=86_400_000,
            stream_maxlen=10_000,
            retention_ms=86_400_000,
            max_signals=10_000,
        )
        == NO_POLICY
    )
    assert (NO_POLICY.max_retries, NO_POLICY.max_reclaim_count, NO_POLICY.priority) == (-1, -1, -1)
    assert NO_POLICY.suspension_timeout_behavior == "fail"


def test_every_field() -> None:
    policy = parse_policy(
        json.dumps(
            {
                "priority": 7,
                "delay_until": 1_700_000_000_000,
                "retry_policy": {
                    "max_retries": 5,
                    "backoff": {
                        "type": "exponential",
                        "initial_delay_ms": 10,
                        "max_delay_ms": 90,
                        "multiplier": 3,
                        "jitter": True,
                    },
                    "retryable_categories": ["timeout", "quota", "timeout"],
                },
                "timeout_policy": {
                    "attempt_timeout_ms": 30,
                    "execution_deadline_ms": 300,
                    "max_reclaim_count": 4,
                },
                "max_reclaim_count": 6,
                "suspension_policy": {"default_timeout_ms": 60, "timeout_behavior": "auto_resume"},
                "fallback_policy": {"tiers": [{"provider": "p", "model": "m", "timeout_ms": 45_000}]},
                "max_replay_count": 2,
                "budget_ids": [UUID],
                "routing_requirements": {
                    "required_capabilities": ["gpu", "b", "gpu"],
                    "preferred_locality": "eu-1",
                    "isolation_level": "strict",
                },
                "dedup_window_ms": 5_000,
                "stream_policy": {
                    "durability_mode": "durable",
                    "retention_maxlen": 12,
                    "retention_ttl_ms": 34,
                },
                "max_signals_per_execution": 3,
                "something_else": {"deep": [None, 12345678901234567890]},
            }
        )
    )
    assert policy == Policy(
        version=1,
        max_retries=5,
        backoff="exponential",
        delay_ms=0,
        initial_delay_ms=10,
        max_delay_ms=90,
        multiplier=3.0,
        jitter=True,
        retryable_categories=("timeout", "quota"),
        attempt_timeout_ms=30,
        execution_deadline_ms=300,
        max_reclaim_count=6,
        suspension_timeout_ms=60,
        suspension_timeout_behavior="auto_resume_with_timeout_signal",
        max_replay_count=2,
        required_capabilities=("b", "gpu"),
        dedup_window_ms=5_000,
        stream_maxlen=12,
        retention_ms=34,
        max_signals=3,
        priority=7,
        delay_until=1_700_000_000_000,
        budget_ids=(UUID,),
    )
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(policy), type=Policy) == policy


def test_retry_defaults() -> None:
    policy = parse_policy('{"retry_policy":{}}')
    assert (policy.max_retries, policy.backoff) == (3, "exponential")
    assert (policy.initial_delay_ms, policy.max_delay_ms, policy.multiplier) == (1_000, 60_000, 2.0)
    assert not policy.jitter
    fixed = parse_policy('{"retry_policy":{"backoff":{"type":"fixed"}}}')
    assert (fixed.backoff, fixed.delay_ms, fixed.max_delay_ms) == ("fixed", 1_000, 0)


def test_reclaim_count_falls_back() -> None:
    assert parse_policy('{"timeout_policy":{"max_reclaim_count":4}}').max_reclaim_count == 4
    assert (
        parse_policy('{"max_reclaim_count":0,"timeout_policy":{"max_reclaim_count":4}}').max_reclaim_count
        == 0
    )
    assert parse_policy('{"timeout_policy":{}}').max_reclaim_count == -1


@pytest.mark.parametrize(
    ("given_", "kept"), [(-5, 0), (0, 0), (9_000, 9_000), (9_001, 9_000), (2**31 - 1, 9_000)]
)
def test_priority_is_clamped(given_: int, kept: int) -> None:
    assert parse_policy(json.dumps({"priority": given_})).priority == kept


def test_zero_stream_limit_is_the_default() -> None:
    assert parse_policy('{"stream_policy":{"retention_maxlen":0}}').stream_maxlen == limits.STREAM_MAXLEN


def test_largest_integer_is_kept() -> None:
    assert parse_policy(json.dumps({"delay_until": limits.MAX_INT})).delay_until == limits.MAX_INT


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "nope",
        b"\xff",
        b'{"a":"\xff"}',
        '{"a":1,}',
        "[" * 100_000,
        '{"a":NaN}',
        '{"a":[-Infinity]}',
        "\ud800",
    ],
)
def test_malformed(text: str | bytes) -> None:
    assert refusal(text) == ("invalid_policy_json", ("malformed",), "policy")


@pytest.mark.parametrize("text", ["[]", "1", '"x"', "null", "true"])
def test_root_must_be_an_object(text: str) -> None:
    assert refusal(text) == ("invalid_policy_json", ("not_object",), "policy")


def test_size_limit() -> None:
    text = json.dumps({"x": "é" * limits.MAX_POLICY_BYTES}, ensure_ascii=False)
    assert refusal(text) == ("invalid_policy_json", ("too_large",), "policy")


@pytest.mark.parametrize(
    ("policy", "detail"),
    [
        ({"routing_requirements": None}, "routing_requirements:not_object"),
        ({"routing_requirements": []}, "routing_requirements:not_object"),
        (
            {"routing_requirements": {"preferred_locality": 1}},
            "routing_requirements.preferred_locality:not_string",
        ),
        ({"routing_requirements": {"isolation_level": None}}, "routing_requirements.isolation_level:null"),
        ({"priority": None}, "priority:null"),
        ({"priority": 1.0}, "priority:not_integer"),
        ({"priority": True}, "priority:not_integer"),
        ({"priority": 2**53}, "priority:too_large"),
        ({"priority": -(2**53)}, "priority:too_small"),
        ({"priority": 2**31}, "priority:too_large"),
        ({"retry_policy": {"max_retries": 2**32}}, "retry_policy.max_retries:too_large"),
        ({"timeout_policy": {"max_reclaim_count": 2**32}}, "timeout_policy.max_reclaim_count:too_large"),
        ({"delay_until": -1}, "delay_until:too_small"),
        ({"delay_until": "soon"}, "delay_until:not_integer"),
        ('{"delay_until":%s}' % ("9" * 5_000), "delay_until:too_large"),
        ('{"delay_until":-%s}' % ("9" * 5_000), "delay_until:too_small"),
        ('{"delay_until":NaN}', "delay_until:not_finite"),
        ('{"delay_until":1e400}', "delay_until:not_finite"),
        ({"retry_policy": None}, "retry_policy:null"),
        ({"retry_policy": 3}, "retry_policy:not_object"),
        ({"retry_policy": {"max_retries": -1}}, "retry_policy.max_retries:too_small"),
        ({"retry_policy": {"backoff": "fixed"}}, "retry_policy.backoff:not_object"),
        ({"retry_policy": {"backoff": {"type": "linear"}}}, "retry_policy.backoff.type:unknown"),
        ({"retry_policy": {"backoff": {"type": ""}}}, "retry_policy.backoff.type:unknown"),
        ({"retry_policy": {"backoff": {"type": 1}}}, "retry_policy.backoff.type:not_string"),
        (
            {"retry_policy": {"backoff": {"type": "fixed", "delay_ms": -1}}},
            "retry_policy.backoff.delay_ms:too_small",
        ),
        (
            {"retry_policy": {"backoff": {"type": "exponential", "multiplier": -0.5}}},
            "retry_policy.backoff.multiplier:too_small",
        ),
        (
            {"retry_policy": {"backoff": {"type": "exponential", "multiplier": 1e300}}},
            "retry_policy.backoff.multiplier:too_large",
        ),
        (
            {"retry_policy": {"backoff": {"type": "exponential", "multiplier": float("inf")}}},
            "retry_policy.backoff.multiplier:not_finite",
        ),
        (
            {"retry_policy": {"backoff": {"type": "exponential", "multiplier": "2"}}},
            "retry_policy.backoff.multiplier:not_number",
        ),
        (
            {"retry_policy": {"backoff": {"type": "fixed", "jitter": 1}}},
            "retry_policy.backoff.jitter:not_boolean",
        ),
        ({"retry_policy": {"retryable_categories": {}}}, "retry_policy.retryable_categories:not_array"),
        ({"retry_policy": {"retryable_categories": [1]}}, "retry_policy.retryable_categories[0]:not_string"),
        ({"retry_policy": {"retryable_categories": ["a", ""]}}, "retry_policy.retryable_categories[1]:empty"),
        (
            {"retry_policy": {"retryable_categories": ["é" * 129]}},
            "retry_policy.retryable_categories[0]:too_long",
        ),
        (
            {"retry_policy": {"retryable_categories": ["\ud800"]}},
            "retry_policy.retryable_categories[0]:not_text",
        ),
        (
            {"retry_policy": {"retryable_categories": ["a"] * 65}},
            "retry_policy.retryable_categories:too_many",
        ),
        ({"timeout_policy": {"attempt_timeout_ms": -1}}, "timeout_policy.attempt_timeout_ms:too_small"),
        (
            {"timeout_policy": {"execution_deadline_ms": 1.5}},
            "timeout_policy.execution_deadline_ms:not_integer",
        ),
        ({"suspension_policy": {"default_timeout_ms": -1}}, "suspension_policy.default_timeout_ms:too_small"),
        ({"suspension_policy": {"timeout_behavior": "sleep"}}, "suspension_policy.timeout_behavior:unknown"),
        ({"stream_policy": {"durability_mode": "ram"}}, "stream_policy.durability_mode:unknown"),
        ({"stream_policy": {"retention_ttl_ms": None}}, "stream_policy.retention_ttl_ms:null"),
        ({"fallback_policy": {"tiers": [1]}}, "fallback_policy.tiers[0]:not_object"),
        (
            {"fallback_policy": {"tiers": [{}, {"timeout_ms": -1}]}},
            "fallback_policy.tiers[1].timeout_ms:too_small",
        ),
        ({"budget_ids": ["x"]}, "budget_ids[0]:not_uuid"),
        ({"budget_ids": [UUID.upper()]}, "budget_ids[0]:not_uuid"),
        ({"max_signals_per_execution": -1}, "max_signals_per_execution:too_small"),
    ],
)
def test_wrong_fields_are_named(policy: Any, detail: str) -> None:
    assert refusal(policy) == ("invalid_policy_json", (detail,), "policy")


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        (None, "not_array"),
        ({}, "not_array"),
        ("gpu", "not_array"),
        ([1], "non_string_token"),
        ([""], "empty_token"),
        (["a,b"], "comma_in_token"),
        (["a b"], "control_or_whitespace"),
        (["a\x7f"], "control_or_whitespace"),
        (["\ud800"], "invalid_utf8"),
        ([f"c{n}" for n in range(257)], "too_many_tokens"),
        (["x" * 4_097], "too_many_bytes"),
    ],
)
def test_wrong_capabilities(tokens: Any, reason: str) -> None:
    policy = {"routing_requirements": {"required_capabilities": tokens}}
    assert refusal(policy)[:2] == ("invalid_capabilities", (f"required:{reason}",))


def test_capability_limits_are_inclusive() -> None:
    for tokens in ([f"c{n}" for n in range(256)], ["x" * 4_096], ["é"], []):
        policy = parse_policy(json.dumps({"routing_requirements": {"required_capabilities": tokens}}))
        assert policy.required_capabilities == tuple(sorted(tokens))


def retrying(**backoff: Any) -> Policy:
    return parse_policy(json.dumps({"retry_policy": {"backoff": backoff}}))


def test_default_backoff_sequence() -> None:
    policy = parse_policy('{"retry_policy":{}}')
    waits = [backoff_ms(policy, n, 0.0) for n in range(8)]
    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]


def test_backoff_forms() -> None:
    assert [backoff_ms(retrying(type="fixed", delay_ms=90_000), n, 0.9) for n in (0, 7)] == [90_000, 90_000]
    assert backoff_ms(NO_POLICY, 4, 0.0) == 1_000
    growing = retrying(type="exponential", initial_delay_ms=777, multiplier=1.5)
    assert [backoff_ms(growing, n, 0.0) for n in range(4)] == [777, 1_165, 1_748, 2_622]
    assert backoff_ms(retrying(type="exponential", initial_delay_ms=500, max_delay_ms=200), 0, 0.0) == 200
    assert backoff_ms(retrying(type="exponential", multiplier=0), 1, 0.0) == 0


def test_backoff_of_a_huge_count_is_quick() -> None:
    for multiplier in (0, 0.5, 1, 1.0000001, 2, limits.MAX_INT):
        policy = retrying(type="exponential", multiplier=multiplier, max_delay_ms=limits.MAX_INT)
        assert 0 <= backoff_ms(policy, limits.MAX_INT, 0.0) <= limits.MAX_INT


@pytest.mark.parametrize(
    ("delay", "chance", "wait"),
    [(1_000, 0.0, 500), (1_000, 0.5, 750), (1_000, 0.999999, 1_000), (5, 0.0, 3), (1, 0.0, 1), (0, 0.7, 0)],
)
def test_jitter(delay: int, chance: float, wait: int) -> None:
    assert backoff_ms(retrying(type="fixed", delay_ms=delay, jitter=True), 0, chance) == wait


@given(st.integers(0, limits.MAX_INT), st.floats(0, 1, exclude_max=True))
def test_jitter_stays_between_half_and_whole(delay: int, chance: float) -> None:
    policy = Policy(max_retries=1, backoff="fixed", delay_ms=delay, jitter=True)
    assert delay <= 2 * backoff_ms(policy, 0, chance) <= 2 * delay


def test_retry_needs_a_policy_and_a_count_below_its_limit() -> None:
    policy = Policy(max_retries=2)
    assert [may_retry(policy, "error", n) for n in range(4)] == [True, True, False, False]
    assert not may_retry(NO_POLICY, "transient", 0)
    assert not may_retry(Policy(max_retries=0), "transient", 0)


def test_final_categories_never_retry() -> None:
    policy = Policy(max_retries=9, retryable_categories=FINAL_CATEGORIES)
    assert not any(may_retry(policy, category, 0) for category in FINAL_CATEGORIES)
    assert not any(may_retry(Policy(max_retries=9), category, 0) for category in FINAL_CATEGORIES)
    assert [may_retry(Policy(max_retries=9), known, 0) for known in FAILURE_CATEGORIES] == [
        True,
        False,
        True,
        True,
        False,
    ]


def test_retryable_categories() -> None:
    named = Policy(max_retries=9, retryable_categories=("quota",))
    assert may_retry(named, "quota", 0)
    assert not may_retry(named, "Quota", 0)
    assert not may_retry(named, "transient", 0)
    transient = Policy(max_retries=9, retryable_categories=("transient",))
    words = ("transient", "error", "", "timeout", "infra_crash")
    assert [may_retry(transient, word, 0) for word in words] == [True, True, True, False, False]


def test_timeout_behavior() -> None:
    assert timeout_behavior("escalate") == "escalate"
    assert timeout_behavior("auto_resume") == "auto_resume_with_timeout_signal"
    with pytest.raises(FlowFabricError, match="timeout_behavior: must be one of fail"):
        timeout_behavior("")
