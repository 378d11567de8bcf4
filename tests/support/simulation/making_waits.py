"""Making suspensions, waitpoints and signals."""

from __future__ import annotations

from typing import Any

from flowfabric.model.condition_json import parse_condition
from flowfabric.model.conditions import (
    Condition,
    list_condition,
    operator_only,
    referenced_keys,
    single,
    timeout_only,
)
from flowfabric.model.operations.signal import ApproveSignal, DeliverSignal
from flowfabric.model.operations.suspend import TIMEOUT_BEHAVIORS, Binding, Suspend
from flowfabric.model.operations.suspend_resume import ResumeExecution
from flowfabric.model.operations.suspend_waitpoint import CloseWaitpoint, CreateWaitpoint, OpenWaitpoint
from support.simulation.draw import Draw
from support.simulation.making import Hand, maker
from support.simulation.world import KEYS, SIGNALS, STEPS, Known

REASONS = ("waiting_for_signal", "waiting_for_approval", "manual_pause", "paused_by_budget", "odd")


def _leaf(draw: Draw, key: str) -> dict[str, Any]:
    matcher = draw.pick(({"kind": "Wildcard"}, {"kind": "ByName", "name": draw.pick(SIGNALS)}))
    return {"kind": "Single", "waitpoint_key": key, "matcher": matcher}


def _count(draw: Draw, keys: tuple[str, ...]) -> dict[str, Any]:
    kind = draw.pick(("DistinctSignals", "DistinctSources", "DistinctWaitpoints"))
    most = len(keys) if kind == "DistinctWaitpoints" else 3
    return {"kind": "Count", "n": draw.integer(1, most), "count_kind": kind, "waitpoints": list(keys)}


def _tree(draw: Draw) -> Condition:
    keys = draw.some(KEYS, 3)
    if draw.chance(0.5):
        root = _count(draw, keys)
    else:
        members = [_leaf(draw, key) for key in keys]
        if draw.chance(0.3):
            members.append(_count(draw, keys))
        root = {"kind": "AllOf", "members": members}
    return parse_condition(
        {"v": 1, "composite": True, "tree": root, "allow_operator_override": draw.chance(0.8)}
    )


def _condition(draw: Draw, key: str) -> Condition:
    form = draw.weighted(((8, "single"), (5, "list"), (6, "tree"), (1, "operator"), (1, "timeout")))
    if form == "tree":
        return _tree(draw)
    if form == "operator":
        return operator_only()
    if form == "timeout":
        return timeout_only()
    if form == "single":
        return single(key, draw.pick(("", *SIGNALS)))
    names = draw.some(SIGNALS, 3)
    return list_condition(names, draw.pick(("any", "all", "count")), draw.integer(1, len(names)))


def _waitpoint(hand: Hand, known: Known) -> OpenWaitpoint:
    """One that the execution has, mostly the newest."""
    if known.waitpoints and hand.draw.chance(0.95):
        return known.waitpoints[-1] if hand.draw.chance(0.7) else hand.draw.pick(known.waitpoints)
    others = [wp for run in hand.world.runs.values() for wp in run.waitpoints]
    if others and hand.draw.chance(0.5):
        return hand.draw.pick(others)
    return OpenWaitpoint(hand.draw.uuid(), hand.draw.pick(KEYS), "k1:00")


def _bindings(hand: Hand, known: Known, condition: Condition) -> tuple[Binding, ...]:
    draw = hand.draw
    if known.waitpoints and draw.chance(0.3):
        chosen = known.waitpoints[-1]
        return (Binding(chosen.waitpoint_id, draw.pick(("", chosen.waitpoint_key)), pending=True),)
    keys = referenced_keys(condition) or (draw.pick(KEYS),)
    if draw.chance(0.03):
        keys = draw.pick(((), (*keys, "extra")))
    reuse = [each.waitpoint_id for each in known.waitpoints]
    return tuple(
        Binding(draw.pick(reuse) if reuse and draw.chance(0.06) else draw.uuid(), key) for key in keys
    )


@maker(Suspend)
def suspend(hand: Hand) -> Suspend:
    draw = hand.draw
    known = hand.run()
    key = known.waitpoints[-1].waitpoint_key if known.waitpoints else draw.pick(KEYS)
    condition = _condition(draw, key)
    fields: dict[str, Any] = {}
    if draw.chance(0.2):
        fields["timeout_at"] = hand.soon()
    elif draw.chance(0.4):
        fields["timeout_ms"] = draw.pick((0, 1_000, 20_000))
    if draw.chance(0.4):
        fields["timeout_behavior"] = draw.pick((*TIMEOUT_BEHAVIORS, "odd"))
    if draw.chance(0.25):
        fields["idempotency_key"] = draw.pick(("s1", "s2"))
    if draw.chance(0.3):
        fields["step_name"] = draw.pick(STEPS)
    if draw.chance(0.15):
        fields["resume_delay_ms"] = 2_000
    return Suspend(
        **hand.held(known),
        suspension_id=draw.uuid(),
        waitpoints=_bindings(hand, known, condition),
        condition=condition,
        reason_code=draw.pick(REASONS),
        **fields,
    )


@maker(CreateWaitpoint)
def create_waitpoint(hand: Hand) -> CreateWaitpoint:
    known = hand.run()
    reuse = [each.waitpoint_id for each in known.waitpoints]
    return CreateWaitpoint(
        **hand.held(known),
        waitpoint_id=hand.draw.pick(reuse) if reuse and hand.draw.chance(0.15) else hand.draw.uuid(),
        waitpoint_key=hand.draw.pick(KEYS),
        expires_in_ms=hand.draw.weighted(((5, 60_000), (3, 2_000), (1, 0))),
    )


@maker(CloseWaitpoint)
def close_waitpoint(hand: Hand) -> CloseWaitpoint:
    known = hand.run()
    return CloseWaitpoint(**hand.on(known), waitpoint_id=_waitpoint(hand, known).waitpoint_id)


@maker(DeliverSignal)
def deliver_signal(hand: Hand) -> DeliverSignal:
    draw = hand.draw
    known = hand.run()
    waitpoint = _waitpoint(hand, known)
    token = draw.weighted(((30, waitpoint.waitpoint_token), (1, ""), (1, "k1:zz"), (1, "k9:" + "0" * 64)))
    fields: dict[str, Any] = {}
    if draw.chance(0.3):
        fields |= {"idempotency_key": draw.pick(("d1", "d2")), "dedup_ttl_ms": draw.pick((0, 1_000, 90_000))}
    if draw.chance(0.15):
        fields["resume_delay_ms"] = draw.pick((0, 3_000))
    if draw.chance(0.15):
        fields["signal_maxlen"] = draw.pick((1, 2))
    if draw.chance(0.08):
        fields["max_signals_per_execution"] = draw.pick((0, 1, 3))
    return DeliverSignal(
        **hand.on(known),
        waitpoint_id=waitpoint.waitpoint_id,
        waitpoint_token=token,
        signal_id=draw.uuid(),
        signal_name=draw.pick(SIGNALS),
        payload=draw.data(),
        source_type=draw.pick(("", "user")),
        source_identity=draw.pick(("", "ann", "bob")),
        signal_category=draw.pick(("", "x")),
        **fields,
    )


@maker(ApproveSignal)
def approve_signal(hand: Hand) -> ApproveSignal:
    draw = hand.draw
    known = hand.run()
    return ApproveSignal(
        **hand.on(known),
        waitpoint_id=_waitpoint(hand, known).waitpoint_id,
        signal_id=draw.uuid(),
        signal_name=draw.pick(SIGNALS),
        payload=draw.data(),
        key_suffix=draw.pick(("", "1", "2", "3")),
        idempotency_key=draw.pick(("", "", "k1", "k2")),
        lane_id=draw.weighted(((5, ""), (3, known.lane_id), (1, "elsewhere"))),
        dedup_ttl_ms=draw.pick((0, 1_000, 90_000)),
    )


@maker(ResumeExecution)
def resume_execution(hand: Hand) -> ResumeExecution:
    return ResumeExecution(**hand.on(hand.run()), resume_delay_ms=hand.draw.pick((0, 0, 1_500)))
