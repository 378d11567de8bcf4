"""Making executions, and what clients and operators do to them."""

from __future__ import annotations

import json
from typing import Any, Final

from flowfabric.model.limits import MAX_INT
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.lane import OpenLane, PauseLane, UnpauseLane
from flowfabric.model.operations.lease import RevokeLease
from flowfabric.model.operations.operate import (
    Block,
    ChangePriority,
    Pause,
    Replay,
    SetTags,
    Unblock,
    Unpause,
)
from support.simulation.draw import Draw
from support.simulation.making import Hand, maker
from support.simulation.world import KINDS, LANES, NAMESPACES, STEPS

TAGS: Final = (("team", "red"), ("team.name", "x"), ("zone", ""), ("cost", "9"))
REASONS: Final = (
    "waiting_for_budget",
    "waiting_for_quota",
    "waiting_for_capable_worker",
    "paused_by_operator",
    "paused_by_policy",
    "waiting_for_delay",
    "nonsense",
)
POLICIES: Final[tuple[dict[str, Any], ...]] = (
    {"retry_policy": {"max_retries": 2}},
    {"retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}}},
    {"retry_policy": {"max_retries": 9, "backoff": {"type": "fixed", "delay_ms": 700, "jitter": True}}},
    {"retry_policy": {"max_retries": 3, "retryable_categories": ["transient", "timeout"]}},
    {"retry_policy": {"backoff": {"type": "exponential", "initial_delay_ms": 10, "jitter": True}}},
    {"timeout_policy": {"attempt_timeout_ms": 4_000}},
    {"timeout_policy": {"attempt_timeout_ms": 2_000, "execution_deadline_ms": 40_000}},
    {"timeout_policy": {"max_reclaim_count": 1}},
    {"max_reclaim_count": 0},
    {"max_replay_count": 1},
    {"routing_requirements": {"required_capabilities": ["gpu"]}},
    {"routing_requirements": {"required_capabilities": ["gpu", "big"]}},
    {"suspension_policy": {"default_timeout_ms": 3_000, "timeout_behavior": "auto_resume"}},
    {"suspension_policy": {"default_timeout_ms": 3_000, "timeout_behavior": "escalate"}},
    {"stream_policy": {"retention_maxlen": 3, "retention_ttl_ms": 5_000}},
    {"max_signals_per_execution": 2},
    {"dedup_window_ms": 2_000, "priority": 5},
)
BAD_POLICIES: Final = (b"[]", b"{", b'{"retry_policy":{"max_retries":-4}}', b'{"max_replay_count":"x"}')


def _policy(draw: Draw) -> bytes:
    if draw.chance(0.03):
        return draw.pick(BAD_POLICIES)
    if draw.chance(0.3):
        return b""
    merged: dict[str, Any] = {}
    for part in draw.some(POLICIES, 3):
        merged |= part
    return json.dumps(merged).encode()


def _tags(draw: Draw) -> tuple[tuple[str, str], ...]:
    if draw.chance(0.05):
        return draw.pick(((("Bad Key", "x"),), (("b", "1"), ("a", "2")), (("a", "1"), ("a", "2"))))
    return tuple(sorted(draw.some(TAGS, 2)))


@maker(CreateExecution)
def create(hand: Hand) -> CreateExecution:
    draw = hand.draw
    known = list(hand.world.runs)
    again = bool(known) and draw.chance(0.08)
    fields: dict[str, Any] = {}
    if draw.chance(0.25):
        fields["idempotency_key"] = draw.pick(("a", "b", "c\x1fd"))
    if draw.chance(0.2):
        fields |= {"delay_until": hand.soon()} if draw.chance(0.5) else {"delay_ms": draw.pick((0, 1, 500))}
    if draw.chance(0.15):
        fields["execution_deadline_at"] = hand.soon()
    if draw.chance(0.3):
        fields["tags"] = _tags(draw)
    if draw.chance(0.4):
        fields["priority"] = draw.pick((-5, 0, 1, 10, 9_000, MAX_INT, MAX_INT + 1))
    if draw.chance(0.03):
        fields |= draw.pick(({"flow_id": draw.uuid()}, {"budget_ids": (draw.uuid(),)}, {"quota_ids": ("x",)}))
    return CreateExecution(
        execution_id=draw.pick(known) if again else draw.execution_id(),
        execution_kind=draw.pick(KINDS),
        lane_id=draw.pick(LANES),
        namespace=draw.pick(NAMESPACES),
        creator_identity=draw.pick(("", "me")),
        input_payload=draw.data(),
        payload_encoding=draw.pick(("", "json")),
        policy=_policy(draw),
        fairness_key=draw.pick(("", "", "f")),
        **fields,
    )


@maker(ChangePriority)
def change_priority(hand: Hand) -> ChangePriority:
    return ChangePriority(
        **hand.on(hand.run()), priority=hand.draw.pick((-1, 0, 3, 9_000, 9_001, MAX_INT + 1))
    )


@maker(SetTags)
def set_tags(hand: Hand) -> SetTags:
    return SetTags(**hand.on(hand.run()), tags=() if hand.draw.chance(0.03) else _tags(hand.draw))


@maker(Replay)
def replay(hand: Hand) -> Replay:
    fields: dict[str, Any] = {}
    if hand.draw.chance(0.3):
        fields["keep_steps"] = True
    if hand.draw.chance(0.3):
        fields["from_step"] = hand.draw.pick(STEPS)
    return Replay(**hand.on(hand.run()), reason=hand.draw.pick(("", "again")), requested_by="me", **fields)


@maker(Pause)
def pause(hand: Hand) -> Pause:
    return Pause(**hand.on(hand.run()), reason=hand.draw.pick(("", "wait")))


@maker(Unpause)
def unpause(hand: Hand) -> Unpause:
    return Unpause(**hand.on(hand.run()))


@maker(PauseLane)
def pause_lane(hand: Hand) -> PauseLane:
    return PauseLane(lane_id=hand.draw.pick((*LANES, "empty", "")), reason=hand.draw.pick(("", "night")))


@maker(OpenLane)
def open_lane(hand: Hand) -> OpenLane:
    return OpenLane(lane_id=hand.draw.pick((*LANES, "empty", "")))


@maker(UnpauseLane)
def unpause_lane(hand: Hand) -> UnpauseLane:
    return UnpauseLane(lane_id=hand.draw.pick((*LANES, "empty")))


@maker(RevokeLease)
def revoke_lease(hand: Hand) -> RevokeLease:
    known = hand.run()
    expected = hand.draw.weighted(((6, ""), (3, known.fence.lease_id), (1, hand.draw.uuid())))
    return RevokeLease(**hand.on(known), expected_lease_id=expected, reason=hand.draw.pick(("", "rude")))


@maker(Block)
def block(hand: Hand) -> Block:
    return Block(**hand.on(hand.run()), blocking_reason=hand.draw.pick(REASONS), blocking_detail="d")


@maker(Unblock)
def unblock(hand: Hand) -> Unblock:
    expected = hand.draw.pick(("", "", "", *REASONS))
    return Unblock(**hand.on(hand.run()), expected_blocking_reason=expected)
