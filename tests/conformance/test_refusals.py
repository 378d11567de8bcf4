"""Refusals: what each state does not allow, by which code, and that nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from flowfabric.model.command import Fence
from flowfabric.model.operations.grant import (
    ClaimGranted,
    ClaimResumed,
    GrantAndClaim,
    IssueClaimGrant,
    IssueReclaimGrant,
    Reclaim,
)
from flowfabric.model.operations.lease import AlreadySatisfied
from flowfabric.model.operations.operate import Block, Pause, Replay
from flowfabric.model.operations.suspend_resume import ResumeExecution
from flowfabric.model.operations.timer import (
    ExpireExecution,
    ExpireSuspension,
    MarkedExpired,
    MarkLeaseExpired,
    PromoteDelayed,
    Swept,
)
from support import scenes
from support.driver import LEASE, Driver, new_uuid
from support.expect import refused, refuses
from support.holders import HOLDER

W2: dict[str, Any] = {"worker_id": "w2", "worker_instance_id": "w2-a"}
STRANGER: Final = Fence("00000000-0000-4000-8000-000000000001", 1, "00000000-0000-4000-8000-000000000002")


def _named(kind: type[Any], **fields: Any) -> Callable[[str], Any]:
    return lambda execution_id: kind(execution_id=execution_id, **fields)


def _take(kind: type[Any]) -> Callable[[str], Any]:
    ids = {"lease_id": new_uuid()} | ({} if kind is ClaimResumed else {"attempt_id": new_uuid()})
    return _named(kind, **ids, **W2)


def _held(name: str) -> Callable[[str], Any]:
    return lambda execution_id: HOLDER[name](execution_id, STRANGER)


Row = tuple[Callable[[str], Any], dict[str, tuple[str, ...]]]
FORBIDDEN: Final[dict[str, Row]] = {
    "grant": (
        _named(IssueClaimGrant, grant_ttl_ms=1, **W2),
        {"execution_not_eligible": (*scenes.HELD_BACK, *scenes.ACTIVE, "suspended", *scenes.ENDED)},
    ),
    "reclaim grant": (
        _named(IssueReclaimGrant, grant_ttl_ms=1, **W2),
        {"execution_not_reclaimable": (*scenes.RUNNABLE, "active", "suspended", *scenes.ENDED)},
    ),
    "claim by grant": (
        _take(ClaimGranted),
        {
            "invalid_claim_grant": ("waiting", "retryable"),
            "use_claim_resumed_execution": ("interrupted",),
            "execution_not_leaseable": (*scenes.HELD_BACK, *scenes.ACTIVE, "suspended", *scenes.ENDED),
        },
    ),
    "claim resumed": (
        _take(ClaimResumed),
        {
            "invalid_claim_grant": ("interrupted",),
            "not_a_resumed_execution": ("waiting", "retryable"),
            "execution_not_leaseable": (*scenes.ACTIVE, "suspended", *scenes.ENDED),
        },
    ),
    "take by name": (
        _take(GrantAndClaim),
        {"execution_not_eligible": (*scenes.ACTIVE, "suspended", *scenes.ENDED)},
    ),
    "reclaim": (
        _take(Reclaim),
        {
            "invalid_claim_grant": scenes.LEASE_GONE,
            "execution_not_reclaimable": (*scenes.RUNNABLE, "active", "suspended", *scenes.ENDED),
        },
    ),
    "replay": (_named(Replay), {"execution_not_terminal": scenes.LIVE}),
    "resume": (
        _named(ResumeExecution),
        {"execution_not_suspended": tuple(name for name in scenes.ALL if name != "suspended")},
    ),
    "pause": (_named(Pause), {"execution_not_eligible": (*scenes.ACTIVE, "suspended", *scenes.ENDED)}),
    "block": (
        _named(Block, blocking_reason="waiting_for_budget"),
        {
            "execution_not_eligible": (*scenes.HELD_BACK, *scenes.ACTIVE, "suspended"),
            "execution_not_active": scenes.ENDED,
        },
    ),
}
LOST_TO_STRANGERS: Final[dict[str, tuple[str, ...]]] = {
    "execution_not_active": (*scenes.RUNNABLE, "suspended", *scenes.ENDED),
    "stale_lease": ("active",),
    "lease_expired": ("lease_expired", "lease_released"),
    "lease_revoked": ("lease_revoked",),
}
FORBIDDEN.update({name: (_held(name), LOST_TO_STRANGERS) for name in HOLDER})


@pytest.mark.parametrize("stage", scenes.ALL)
async def test_state_refuses_what_it_does_not_allow_and_stays_as_it_was(ff: Driver, stage: str) -> None:
    await ff.seed()
    scene = await scenes.STAGES[stage](ff)
    for command, refusals in FORBIDDEN.values():
        for code, stages in refusals.items():
            if stage in stages:
                await refuses(ff, command(scene.execution_id), code)


@pytest.mark.parametrize("name", sorted(FORBIDDEN))
async def test_unknown_execution_is_refused_everywhere(ff: Driver, name: str) -> None:
    await refuses(ff, FORBIDDEN[name][0](ff.new_id()), "execution_not_found")


async def test_refusals_that_say_something_new_are_saved(ff: Driver) -> None:
    """A lease found expired, a cap found reached and a grant found too old are written with the refusal."""
    late = await scenes.active(ff, policy={"max_reclaim_count": 0})
    ff.clock.advance(LEASE)
    with refused("lease_expired"):
        await ff.store.apply(HOLDER["renew"](late.execution_id, late.fence))
    assert (await ff.events(late.execution_id))[-1] == "lease_expired"
    with refused("max_retries_exhausted", "0"):
        await ff.store.apply(_take(Reclaim)(late.execution_id))
    assert (await ff.events(late.execution_id))[-1] == "failed"
    granted = await scenes.waiting(ff)
    await ff.store.apply(_named(IssueClaimGrant, grant_ttl_ms=1, **W2)(granted.execution_id))
    ff.clock.advance(2)
    with refused("claim_grant_expired"):
        await ff.store.apply(_take(ClaimGranted)(granted.execution_id))
    assert (await ff.show(granted.execution_id)).grant == ()


async def test_timers_and_marks_on_every_state_never_raise(ff: Driver) -> None:
    for number, stage in enumerate(scenes.ALL):
        scene = await scenes.STAGES[stage](ff, lane_id=f"lane-{number}")
        for command in (MarkLeaseExpired, PromoteDelayed, ExpireSuspension, ExpireExecution):
            answer = await ff.store.apply(command(execution_id=scene.execution_id))
            assert isinstance(answer, Swept | MarkedExpired | AlreadySatisfied)
