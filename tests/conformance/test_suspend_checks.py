"""What a suspension refuses, with which words, and in which order it looks."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flowfabric.model.command import NO_FENCE, Fence
from flowfabric.model.condition_json import parse_condition
from flowfabric.model.conditions import Condition, list_condition, operator_only, single, timeout_only
from flowfabric.model.errors import InvalidInput
from flowfabric.model.limits import MAX_INT
from flowfabric.model.operations.lease import RevokeLease
from flowfabric.model.operations.suspend import Binding, Suspend
from flowfabric.model.operations.suspend_waitpoint import CloseWaitpoint
from support.driver import LEASE, Driver, new_uuid
from support.waiting import (
    all_of,
    any_on,
    by_name,
    count,
    fresh,
    let_go,
    open_pending,
    pending,
    refused,
    suspended,
    suspension,
    tree,
)

ONE = "11111111-1111-1111-1111-111111111111"
TWO = "22222222-2222-2222-2222-222222222222"
BOTH = tree(all_of(by_name("a", "x"), by_name("b", "x")))


def nested(depth: int, leaf: dict[str, Any]) -> dict[str, Any]:
    for _ in range(depth):
        leaf = all_of(leaf)
    return leaf


@pytest.mark.parametrize(
    ("condition", "waitpoints", "text"),
    [
        (list_condition(()), (), "waitpoints_empty"),
        (single("a", "x"), (Binding(ONE, "b"),), "waitpoint_key_mismatch"),
        (
            BOTH,
            (Binding(ONE, "a"), Binding(TWO, "b", pending=True)),
            "additional_waitpoint_binding_must_be_fresh at waitpoints[1]",
        ),
        (
            BOTH,
            (Binding(ONE, "a"), Binding(TWO, "")),
            "additional_waitpoint_binding_empty_key at waitpoints[1]",
        ),
        (
            BOTH,
            (Binding(ONE, "a"), Binding(TWO, "c")),
            "referenced_waitpoint_key_missing_binding: b",
        ),
        (
            BOTH,
            (*fresh("a", "b"), Binding(TWO, "c")),
            "extra_binding_not_referenced_by_condition: c",
        ),
        (list_condition(()), (Binding(ONE, ""),), "a fresh waitpoint needs a key"),
        (BOTH, (Binding(ONE, "a"), Binding(ONE, "b")), "each waitpoint_id once"),
        (BOTH, (*fresh("a", "b"), Binding(TWO, "b")), "each waitpoint_key once"),
        (timeout_only(), (Binding(ONE, "a"),), "timeout_only_without_deadline"),
    ],
)
async def test_bindings_must_fit_the_condition(
    ff: Driver, condition: Condition, waitpoints: tuple[Binding, ...], text: str
) -> None:
    await ff.seed()
    task = await ff.running()
    error = await refused(ff, suspension(task, condition, waitpoints=waitpoints), "invalid_input")
    assert text in error.text


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (by_name("a", ""), "resume_condition: empty signal name"),
        (count(1, "Signals", "a") | {"matcher": {"kind": "ByName", "name": ""}}, "resume_condition: empty"),
        (nested(4, count(1, "Signals", "a")), "depth 5 exceeds cap 4 at path members[0].members[0].memb"),
        (nested(5, by_name("a", "x")), "depth 5 exceeds cap 4"),
        (all_of(), "allof_empty_members at path"),
        (all_of(by_name("a", "x"), all_of()), "allof_empty_members at path members[1]"),
        (count(0, "Signals", "a"), "count_n_zero at path"),
        (all_of(count(0, "Sources", "a")), "count_n_zero at path members[0]"),
        (count(1, "Signals"), "count_waitpoints_empty at path"),
        (count(3, "Waitpoints", "a", "b"), "count_exceeds_waitpoint_set:"),
        (by_name("a", "__operator_only__"), "reserved"),
        ({"kind": "AnyOf", "members": []}, "kind"),
        ({"v": 2, "composite": True, "tree": by_name("a", "x")}, "version"),
    ],
)
def test_a_condition_that_could_never_hold_is_refused(condition: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_condition(condition)
    assert (caught.value.code, caught.value.field) == ("invalid_input", "condition")
    assert text in caught.value.text


@pytest.mark.parametrize(
    "condition",
    [
        nested(3, count(1, "Signals", "a")),
        nested(4, by_name("a", "x")),
        count(5, "Signals", "a"),
        count(5, "Sources", "a"),
        count(2, "Waitpoints", "a", "b"),
        any_on("a"),
        {"kind": "OperatorOnly"},
    ],
)
async def test_a_condition_at_its_limit_is_accepted(ff: Driver, condition: dict[str, Any]) -> None:
    wait = await suspended(ff, parse_condition(condition))
    assert (await ff.show(wait.execution_id)).public_state == "suspended"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"timeout_at": -1}, "timeout_at"),
        ({"timeout_at": MAX_INT + 1}, "timeout_at"),
        ({"timeout_ms": -1}, "timeout_ms"),
        ({"timeout_at": 5, "timeout_ms": 5}, "timeout_at"),
        ({"timeout_behavior": "explode"}, "timeout_behavior"),
        ({"resume_delay_ms": -1}, "resume_delay_ms"),
        ({"suspension_id": "X"}, "suspension_id"),
        ({"reason_code": ""}, "reason_code"),
        ({"waitpoints": (Binding("nope", "a"),)}, "waitpoints.waitpoint_id"),
        ({"step_name": "s" * 257}, "step_name"),
        ({"idempotency_key": "s" * 257}, "idempotency_key"),
        ({"continuation_metadata_pointer": "s" * 4097}, "continuation_metadata_pointer"),
    ],
)
async def test_every_field_is_checked(ff: Driver, fields: dict[str, Any], field: str) -> None:
    await ff.seed()
    task = await ff.running()
    error = await refused(ff, suspension(task, **fields), "invalid_input")
    assert error.field == field


async def test_a_timeout_long_past_is_refused(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    error = await refused(ff, suspension(task, timeout_at=ff.now - 600_001), "invalid_input")
    assert "timeout_at_in_past" in error.text


async def test_a_far_timeout_never_passes_the_largest_number(ff: Driver) -> None:
    wait = await suspended(ff, timeout_ms=MAX_INT)
    assert (await wait.record()).timeout_at == MAX_INT
    assert (await ff.show(wait.execution_id)).suspension_timeout_at == MAX_INT


@pytest.mark.parametrize("fence", [NO_FENCE, Fence(lease_id=ONE)])
async def test_existence_comes_before_the_fence(ff: Driver, fence: Fence) -> None:
    await ff.seed()
    task = await ff.running()
    known = suspension(task, fence=fence)
    command = Suspend(
        execution_id=ff.new_id(),
        fence=fence,
        suspension_id=known.suspension_id,
        waitpoints=known.waitpoints,
        condition=known.condition,
    )
    await refused(ff, command, "execution_not_found")


@pytest.mark.parametrize("source", ["worker", "operator_override"])
async def test_nobody_suspends_without_a_fence(ff: Driver, source: str) -> None:
    await ff.seed()
    task = await ff.running()
    await refused(ff, suspension(task, fence=NO_FENCE, source=source), "fence_required")
    partial = Fence(task.fence.lease_id, task.fence.lease_epoch, "")
    await refused(ff, suspension(task, fence=partial, source=source), "partial_fence_triple")


async def test_the_fence_comes_before_the_phase(ff: Driver) -> None:
    wait = await suspended(ff)
    await refused(ff, suspension(wait.task, fence=NO_FENCE), "fence_required")
    await refused(ff, suspension(wait.task, fence=Fence(lease_id=ONE)), "partial_fence_triple")


async def test_a_revoked_lease_suspends_nothing(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    await ff.store.apply(RevokeLease(execution_id=task.execution_id))
    ff.clock.advance(LEASE)
    await refused(ff, suspension(task), "lease_revoked")


async def test_an_expired_lease_is_marked_so(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    ff.clock.advance(LEASE)
    await refused(ff, suspension(task, fence=ff.stale(task)), "lease_expired")
    assert (await ff.show(task.execution_id)).ownership_state == "lease_expired_reclaimable"


@pytest.mark.parametrize("part", ["lease_id", "lease_epoch", "attempt_id"])
async def test_every_part_of_the_fence_must_match(ff: Driver, part: str) -> None:
    await ff.seed()
    task = await ff.running()
    fence = replace(task.fence, **{part: 99 if part == "lease_epoch" else ONE})
    command = suspension(task, fence=fence, attempt_index=7)
    await refused(ff, command, "stale_lease")


async def test_the_attempt_index_must_match(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    ghost = (Binding(new_uuid(), pending=True),)
    await refused(ff, suspension(task, attempt_index=1, waitpoints=ghost), "invalid_lease_for_suspend")
    await ff.store.apply(suspension(task, attempt_index=0))
    assert (await ff.show(task.execution_id)).public_state == "suspended"


async def test_a_pending_waitpoint_must_exist(ff: Driver) -> None:
    await ff.seed()
    task, other = await ff.running(), await ff.running()
    foreign = await open_pending(ff, other)
    await refused(ff, suspension(task, waitpoints=(Binding(ONE, pending=True),)), "waitpoint_not_found")
    await refused(ff, suspension(task, waitpoints=pending(foreign)), "waitpoint_not_found")


async def test_a_closed_waitpoint_is_not_pending(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task)
    await ff.store.apply(CloseWaitpoint(execution_id=task.execution_id, waitpoint_id=opened.waitpoint_id))
    await refused(ff, suspension(task, waitpoints=pending(opened)), "waitpoint_not_pending")


async def test_a_used_waitpoint_is_not_pending(ff: Driver) -> None:
    wait = await suspended(ff)
    await wait.signal()
    task = await ff.claim_one()
    await refused(ff, suspension(task, waitpoints=pending(wait.waitpoint)), "waitpoint_not_pending")


async def test_the_waitpoint_of_an_earlier_attempt_is_of_no_use(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task)
    await let_go(ff, task)
    again = await ff.claim_one()
    await refused(ff, suspension(again, waitpoints=pending(opened)), "invalid_waitpoint_for_execution")


async def test_a_pending_waitpoint_must_not_be_too_old(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task, expires_in_ms=1_000)
    ff.clock.advance(1_000)
    await refused(ff, suspension(task, waitpoints=pending(opened)), "pending_waitpoint_expired")


async def test_a_pending_waitpoint_goes_alone(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task, "a")
    waitpoints = (Binding(opened.waitpoint_id, "a", pending=True), *fresh("b"))
    await refused(ff, suspension(task, BOTH, waitpoints=waitpoints), "use_pending_with_extras_unsupported")


async def test_without_a_secret_nothing_is_minted(ff: Driver) -> None:
    task = await ff.running()
    await refused(ff, suspension(task, operator_only()), "hmac_secret_not_initialized")
    await refused(ff, suspension(task, BOTH), "hmac_secret_not_initialized")
    await refused(ff, suspension(task, fence=ff.stale(task)), "stale_lease")


@pytest.mark.parametrize("condition", [single("other", "go"), tree(all_of(by_name("other", "go")))])
async def test_the_condition_must_listen_on_the_pending_waitpoint(ff: Driver, condition: Condition) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task, "p0")
    error = await refused(ff, suspension(task, condition, waitpoints=pending(opened)), "invalid_input")
    assert "waitpoint_key_mismatch" in error.text
