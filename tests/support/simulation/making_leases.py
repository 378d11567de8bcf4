"""Making claims, and what the holder of a lease does."""

from __future__ import annotations

from typing import Any, Final

from flowfabric.model.operations.claim import Claim
from flowfabric.model.operations.finish import Cancel, Complete, Delay, Fail, WaitChildren
from flowfabric.model.operations.grant import (
    ClaimGranted,
    ClaimResumed,
    GrantAndClaim,
    IssueClaimGrant,
    IssueReclaimGrant,
    Reclaim,
)
from flowfabric.model.operations.lease import Release, Renew, UpdateProgress
from flowfabric.model.operations.step import PutStep
from flowfabric.model.operations.stream import AppendFrames, FrameInput
from support.simulation.draw import Draw
from support.simulation.making import Hand, maker
from support.simulation.world import KINDS, STEPS, Known

PATCHES: Final = (b'{"a":1}', b'{"a":null,"b":{"c":2}}', b"[1]", b"not json", b'{"b":{"c":null}}')


@maker(Claim)
def claim(hand: Hand) -> Claim:
    draw = hand.draw
    worker = hand.worker()
    kinds = None if draw.chance(0.7) else draw.some(KINDS, 2)
    return Claim(
        worker_id=worker.worker_id,
        worker_instance_id=worker.instance,
        lanes=worker.lanes if draw.chance(0.97) else (),
        mint=draw.uuid(),
        kinds=kinds,
        namespace=worker.namespace,
        capabilities=worker.capabilities,
        max_tasks=draw.weighted(((8, 1), (4, 2), (2, 5), (1, 256), (1, 0))),
        lease_ttl_ms=hand.ttl(),
        claim_id=draw.weighted(((6, ""), (2, "c1"), (2, "c2"))),
    )


def _grant(hand: Hand, known: Known) -> dict[str, Any]:
    worker = hand.worker(known)
    return hand.on(known) | {
        "worker_id": worker.worker_id,
        "worker_instance_id": worker.instance,
        "lane_id": hand.draw.weighted(((5, ""), (4, known.lane_id), (1, "elsewhere"))),
        "grant_ttl_ms": hand.draw.weighted(((8, 5_000), (2, 60_000), (1, 1), (1, 60_001))),
        "worker_capabilities": hand.draw.weighted(
            ((3, worker.capabilities), (3, ("big", "gpu")), (1, ("a,b",)))
        ),
        "capability_hash": "h",
    }


@maker(IssueClaimGrant)
def issue_claim_grant(hand: Hand) -> IssueClaimGrant:
    return IssueClaimGrant(**_grant(hand, hand.run()))


@maker(IssueReclaimGrant)
def issue_reclaim_grant(hand: Hand) -> IssueReclaimGrant:
    return IssueReclaimGrant(**_grant(hand, hand.run()))


def _by_name(hand: Hand, known: Known) -> dict[str, Any]:
    worker = hand.worker(known)
    who = (worker.worker_id, worker.instance)
    if known.granted[0] and hand.draw.chance(0.9):
        who = known.granted
    return hand.on(known) | {
        "worker_id": who[0],
        "worker_instance_id": who[1],
        "lease_id": hand.draw.uuid(),
        "lease_ttl_ms": hand.ttl(),
    }


@maker(ClaimGranted)
def claim_granted(hand: Hand) -> ClaimGranted:
    return ClaimGranted(**_by_name(hand, hand.run()), attempt_id=hand.draw.uuid())


@maker(ClaimResumed)
def claim_resumed(hand: Hand) -> ClaimResumed:
    return ClaimResumed(**_by_name(hand, hand.run()))


@maker(GrantAndClaim)
def grant_and_claim(hand: Hand) -> GrantAndClaim:
    return GrantAndClaim(**_by_name(hand, hand.run()), attempt_id=hand.draw.uuid())


@maker(Reclaim)
def reclaim(hand: Hand) -> Reclaim:
    cap = hand.draw.weighted(((6, None), (1, 0), (1, 1), (1, 5)))
    return Reclaim(**_by_name(hand, hand.run()), attempt_id=hand.draw.uuid(), max_reclaim_count=cap)


def _index(draw: Draw, known: Known) -> int | None:
    return draw.weighted(((8, None), (3, max(known.attempts - 1, 0)), (1, known.attempts + 1)))


@maker(Renew)
def renew(hand: Hand) -> Renew:
    known = hand.run()
    return Renew(**hand.held(known), lease_ttl_ms=hand.ttl(), attempt_index=_index(hand.draw, known))


@maker(Release)
def release(hand: Hand) -> Release:
    return Release(**hand.held(hand.run()), reason=hand.draw.pick(("", "shutdown")))


@maker(Complete)
def complete(hand: Hand) -> Complete:
    result = None if hand.draw.chance(0.2) else hand.draw.data()
    return Complete(**hand.held(hand.run()), result=result, result_encoding=hand.draw.pick(("", "json")))


@maker(Fail)
def fail(hand: Hand) -> Fail:
    draw = hand.draw
    return Fail(
        **hand.held(hand.run()),
        reason=draw.pick(("", "boom")),
        category=draw.pick(
            ("error", "transient", "permanent", "timeout", "cancelled", "invalid_input", "odd")
        ),
        detail=draw.pick(("", "Traceback")),
        retry_after_ms=draw.weighted(((8, None), (2, 0), (1, 1_500), (1, -1))),
    )


@maker(Cancel)
def cancel(hand: Hand) -> Cancel:
    fields = hand.held(hand.run())
    if hand.draw.chance(0.5):
        fields["source"] = hand.draw.pick(("operator", "", "lease_holder", "flow_cascade"))
    return Cancel(**fields, reason=hand.draw.pick(("", "enough")))


@maker(Delay)
def delay(hand: Hand) -> Delay:
    return Delay(**hand.held(hand.run()), delay_until=hand.soon())


@maker(WaitChildren)
def wait_children(hand: Hand) -> WaitChildren:
    return WaitChildren(**hand.held(hand.run()))


@maker(UpdateProgress)
def update_progress(hand: Hand) -> UpdateProgress:
    return UpdateProgress(
        **hand.held(hand.run()),
        pct=hand.draw.weighted(((3, None), (4, 50), (1, 101))),
        message=hand.draw.pick((None, "", "half")),
    )


def _frame(draw: Draw) -> FrameInput:
    mode = draw.weighted(((5, "durable"), (4, "best_effort"), (3, "summary"), (1, "odd")))
    if mode == "best_effort":
        return FrameInput(
            draw.data(),
            mode=mode,
            ttl_ms=draw.pick((0, 10, 2_000)),
            maxlen_floor=draw.pick((0, 1, 64)),
            maxlen_ceiling=draw.pick((0, 2, 100)),
            ema_alpha=draw.pick((0.0, 0.5, 1.0, 7.0)),
        )
    if mode == "summary":
        return FrameInput(draw.pick(PATCHES), mode=mode, patch_kind=draw.pick(("", "json-merge-patch")))
    return FrameInput(
        draw.data(),
        mode=mode,
        retention_maxlen=draw.pick((0, 0, 1, 4)),
        ts=draw.pick((None, 5)),
        correlation_id=draw.pick(("", "c")),
        metadata_json=draw.pick(("", "{}")),
        step=draw.pick(("", "a")),
    )


@maker(AppendFrames)
def append_frames(hand: Hand) -> AppendFrames:
    known = hand.run()
    frames = tuple(_frame(hand.draw) for _ in range(hand.draw.weighted(((6, 1), (3, 3), (1, 6)))))
    return AppendFrames(**hand.held(known), frames=frames, attempt_index=_index(hand.draw, known))


@maker(PutStep)
def put_step(hand: Hand) -> PutStep:
    return PutStep(
        **hand.held(hand.run()),
        step_name=hand.draw.pick(STEPS),
        result=hand.draw.data(),
        call_index=hand.draw.pick((None, None, 0, 1, 2)),
    )
