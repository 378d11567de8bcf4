"""Waitpoints that are opened ahead, closed, expired, listed and read."""

from __future__ import annotations

import msgspec
import pytest

from flowfabric.model.command import NO_FENCE, Fence
from flowfabric.model.conditions import list_condition
from flowfabric.model.limits import MAX_PENDING_WAITPOINTS
from flowfabric.model.operations.access_secret import RotateSecret, SeedSecret
from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.lease import RevokeLease
from flowfabric.model.operations.signal import ReadInbox
from flowfabric.model.operations.suspend_waitpoint import (
    CloseWaitpoint,
    ListWaitpoints,
    OpenWaitpoint,
    ReadToken,
)
from flowfabric.model.operations.timer import ExpireWaitpoints
from support.driver import LEASE, SECRET, Driver, new_uuid
from support.waiting import (
    APPENDED,
    BUFFERED,
    SATISFIED,
    accepted,
    all_of,
    by_name,
    delivery,
    ended,
    open_pending,
    open_waitpoints,
    opening,
    pending,
    refused,
    stored_waitpoint,
    suspend,
    suspended,
    suspension,
    tree,
    unanswered,
)


def closing(task: Task, waitpoint: OpenWaitpoint, **fields: str) -> CloseWaitpoint:
    return CloseWaitpoint(execution_id=task.execution_id, waitpoint_id=waitpoint.waitpoint_id, **fields)


async def token(ff: Driver, task: Task, waitpoint: OpenWaitpoint) -> str | None:
    return await ff.store.read(ReadToken(execution_id=task.execution_id, waitpoint_id=waitpoint.waitpoint_id))


async def test_an_opened_waitpoint_is_pending(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    command = opening(task, "mail", 1_000)
    opened = (await ff.store.apply(command)).waitpoint
    assert (opened.waitpoint_id, opened.waitpoint_key) == (command.waitpoint_id, "mail")
    (view,) = await open_waitpoints(ff, task.execution_id)
    assert (view.waitpoint_id, view.waitpoint_key, view.state) == (command.waitpoint_id, "mail", "pending")
    assert (view.created_at, view.activated_at, view.expires_at) == (ff.now, 0, ff.now + 1_000)
    assert view.required_signal_names == ()
    run = await ff.show(task.execution_id)
    assert run.pending_waitpoints == ((command.waitpoint_id, ff.now + 1_000),)
    assert (await ff.events(task.execution_id))[-1] == "waitpoint_created"
    assert run.public_state == "active"


@pytest.mark.parametrize("source", ["worker", "operator_override"])
async def test_opening_needs_the_whole_fence(ff: Driver, source: str) -> None:
    await ff.seed()
    task = await ff.running()
    await refused(ff, opening(task, fence=NO_FENCE, source=source), "fence_required")
    partial = Fence(task.fence.lease_id, task.fence.lease_epoch)
    await refused(ff, opening(task, fence=partial, source=source), "partial_fence_triple")
    await refused(ff, opening(task, fence=ff.stale(task), source=source), "stale_lease")


@pytest.mark.parametrize("part", ["lease_epoch", "attempt_id"])
async def test_a_stale_holder_opens_nothing(ff: Driver, part: str) -> None:
    await ff.seed()
    task = await ff.running()
    value = 99 if part == "lease_epoch" else new_uuid()
    fence = msgspec.structs.replace(task.fence, **{part: value})
    await refused(ff, opening(task, fence=fence), "stale_lease")


async def test_opening_needs_a_running_attempt(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    await ff.complete(task)
    error = await refused(ff, opening(task), "execution_not_active")
    assert error.details == ("success", str(task.fence.lease_epoch), "terminal", task.attempt_id)
    unknown = msgspec.structs.replace(opening(task), execution_id=ff.new_id())
    await refused(ff, unknown, "execution_not_found")


async def test_opening_needs_a_living_lease(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    ff.clock.advance(LEASE)
    await refused(ff, opening(task), "lease_expired")
    assert (await ff.show(task.execution_id)).ownership_state == "lease_expired_reclaimable"
    assert await open_waitpoints(ff, task.execution_id) == ()


async def test_opening_after_a_revocation(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    await ff.store.apply(RevokeLease(execution_id=task.execution_id))
    await refused(ff, opening(task), "lease_revoked")


async def test_an_open_waitpoint_is_not_overwritten(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task)
    await refused(ff, opening(task, waitpoint_id=opened.waitpoint_id), "waitpoint_already_exists")
    wait = await suspend(ff, task, list_condition(("a", "b"), "all"), waitpoints=pending(opened))
    assert await wait.signal("a") == APPENDED


async def test_a_closed_waitpoint_may_be_overwritten(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task)
    await ff.store.apply(closing(task, opened))
    ff.clock.advance(1)
    again = await open_pending(ff, task, "other", waitpoint_id=opened.waitpoint_id)
    assert again.waitpoint_token != opened.waitpoint_token
    assert await accepted(ff, delivery(task.execution_id, again)) == BUFFERED
    await refused(ff, delivery(task.execution_id, opened), "invalid_token")
    stored = await stored_waitpoint(ff, task.execution_id, opened.waitpoint_id)
    assert (stored.state, stored.waitpoint_key, stored.close_reason) == ("pending", "other", "")


async def test_without_a_secret_nothing_opens(ff: Driver) -> None:
    task = await ff.running()
    await refused(ff, opening(task), "hmac_secret_not_initialized")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"key": ""}, "waitpoint_key"),
        ({"key": "k" * 257}, "waitpoint_key"),
        ({"waitpoint_id": "x"}, "waitpoint_id"),
        ({"expires_in_ms": 2**53}, "expires_in_ms"),
    ],
)
async def test_what_is_opened_is_checked(ff: Driver, fields: dict[str, object], field: str) -> None:
    await ff.seed()
    task = await ff.running()
    assert (await refused(ff, opening(task, **fields), "invalid_input")).field == field  # type: ignore[arg-type]


async def test_an_execution_opens_so_many_waitpoints(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    opened = [await open_pending(ff, task, f"k{n}") for n in range(MAX_PENDING_WAITPOINTS)]
    error = await refused(ff, opening(task, "one more"), "invalid_input")
    assert str(MAX_PENDING_WAITPOINTS) in error.text
    await ff.store.apply(closing(task, opened[0]))
    await open_pending(ff, task, "one more")


async def test_closing_a_pending_waitpoint(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task)
    ff.clock.advance(3)
    assert not (await ff.store.apply(closing(task, opened))).already
    assert await open_waitpoints(ff, task.execution_id) == ()
    assert (await ff.show(task.execution_id)).pending_waitpoints == ()
    stored = await stored_waitpoint(ff, task.execution_id, opened.waitpoint_id)
    assert (stored.state, stored.closed_at, stored.close_reason) == ("closed", ff.now, "proactive_close")
    assert (await ff.events(task.execution_id))[-1] == "waitpoint_closed"
    before = await ff.store.dump()
    assert (await ff.store.apply(closing(task, opened, reason="again"))).already
    assert await ff.store.dump() == before
    await refused(ff, delivery(task.execution_id, opened), "target_not_signalable")


async def test_closing_what_is_not_there(ff: Driver) -> None:
    await ff.seed()
    task, other = await ff.running(), await ff.running()
    foreign = await open_pending(ff, other)
    await refused(ff, closing(task, foreign), "waitpoint_not_found")
    missing = msgspec.structs.replace(closing(task, foreign), execution_id=ff.new_id())
    await refused(ff, missing, "execution_not_found")
    assert len(await open_waitpoints(ff, other.execution_id)) == 1


async def test_an_active_waitpoint_is_not_closed_by_hand(ff: Driver) -> None:
    wait = await suspended(ff)
    await refused(ff, closing(wait.task, wait.waitpoint), "waitpoint_not_open")
    assert await wait.signal() == SATISFIED


async def test_pending_waitpoints_expire(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    short = await open_pending(ff, task, "short", expires_in_ms=1_000)
    long = await open_pending(ff, task, "long", expires_in_ms=1_001)
    ff.clock.advance(999)
    before = await ff.store.dump()
    await ff.store.apply(ExpireWaitpoints(execution_id=task.execution_id))
    assert await ff.store.dump() == before
    ff.clock.advance(1)
    await ff.store.apply(ExpireWaitpoints(execution_id=task.execution_id))
    assert [view.waitpoint_id for view in await open_waitpoints(ff, task.execution_id)] == [long.waitpoint_id]
    stored = await stored_waitpoint(ff, task.execution_id, short.waitpoint_id)
    assert (stored.close_reason, stored.closed_at) == ("never_committed", ff.now)
    assert (await ff.show(task.execution_id)).pending_waitpoints == ((long.waitpoint_id, ff.now + 1),)
    await refused(ff, delivery(task.execution_id, short), "target_not_signalable")
    await refused(ff, suspension(task, waitpoints=pending(short)), "pending_waitpoint_expired")
    assert await accepted(ff, delivery(task.execution_id, long)) == BUFFERED


async def test_pending_waitpoints_end_with_the_execution(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task)
    await ff.complete(task)
    assert await ff.vector(task.execution_id) == ended("success")
    await refused(ff, delivery(task.execution_id, opened), "target_not_signalable")


@pytest.mark.parametrize(
    ("limit", "sizes"), [(2, [2, 2, 1]), (5, [5]), (1, [1] * 5), (0, [1] * 5), (-3, [1] * 5), (9_999, [5])]
)
async def test_the_list_is_ordered_and_paged(ff: Driver, limit: int, sizes: list[int]) -> None:
    await ff.seed()
    task = await ff.running()
    opened = [await open_pending(ff, task, f"k{n}") for n in range(5)]
    pages: list[list[str]] = []
    after = ""
    while True:
        page = await ff.store.read(ListWaitpoints(execution_id=task.execution_id, after=after, limit=limit))
        pages.append([view.waitpoint_id for view in page.waitpoints])
        after = page.next
        if not after:
            break
    assert [len(page) for page in pages] == sizes
    assert [one for page in pages for one in page] == sorted(waitpoint.waitpoint_id for waitpoint in opened)


@pytest.mark.parametrize("limit", [1, 16, 30])
async def test_the_list_goes_on_behind_many_that_are_over(ff: Driver, limit: int) -> None:
    await ff.seed()
    task = await ff.running()
    ids = sorted(new_uuid() for _ in range(50))
    for number, each in enumerate(ids):
        await open_pending(ff, task, each, waitpoint_id=each, expires_in_ms=10 if number < 45 else 5_000)
    ff.clock.advance(100)
    seen: list[str] = []
    after = ""
    while not seen or after:
        page = await ff.store.read(ListWaitpoints(execution_id=task.execution_id, after=after, limit=limit))
        seen += [view.waitpoint_id for view in page.waitpoints]
        after = page.next
    assert seen == ids[45:]


async def test_the_list_knows_what_each_waits_for(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    ahead = await open_pending(ff, task)
    wait = await suspend(ff, task, list_condition(("a", "b"), "all"), reason_code="waiting_for_approval")
    views = {view.waitpoint_id: view for view in await open_waitpoints(ff, task.execution_id)}
    assert set(views) == {ahead.waitpoint_id, wait.waitpoint.waitpoint_id}
    view = views[wait.waitpoint.waitpoint_id]
    assert (view.required_signal_names, view.reason_code) == (("a", "b"), "waiting_for_approval")
    assert (view.token_kid, view.token_fingerprint) == ("k1", wait.waitpoint.waitpoint_token[3:19])
    assert view.execution_id == task.execution_id


@pytest.mark.parametrize("condition", [list_condition(()), tree(all_of(by_name("k0", "a")))])
async def test_wildcards_and_trees_name_no_signals(ff: Driver, condition: object) -> None:
    wait = await suspended(ff, condition)  # type: ignore[arg-type]
    (view,) = await open_waitpoints(ff, wait.execution_id)
    assert view.required_signal_names == ()


async def test_the_list_of_an_unknown_execution(ff: Driver) -> None:
    await unanswered(ff, ListWaitpoints(execution_id=ff.new_id()), "execution_not_found")


async def test_only_open_waitpoints_have_a_token_to_read(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task)
    assert await token(ff, task, opened) == opened.waitpoint_token
    wait = await suspend(ff, task, waitpoints=pending(opened))
    assert await token(ff, task, opened) == opened.waitpoint_token
    await wait.signal()
    assert await token(ff, task, opened) is None
    nobody = OpenWaitpoint(new_uuid(), "", "")
    assert await token(ff, task, nobody) is None
    question = ReadToken(execution_id=ff.new_id(), waitpoint_id=opened.waitpoint_id)
    await unanswered(ff, question, "execution_not_found")


async def test_tokens_are_shown_nowhere(ff: Driver) -> None:
    wait = await suspended(ff, tree(all_of(by_name("a", "x"), by_name("b", "x"))))
    await wait.signal("x", "a")
    secret = wait.waitpoint.waitpoint_token.partition(":")[2]
    shown = [
        await ff.store.read(ListWaitpoints(execution_id=wait.execution_id)),
        await ff.store.read(ReadInbox()),
        await ff.history(wait.execution_id),
        await ff.show(wait.execution_id),
        await wait.record(),
    ]
    for thing in shown:
        assert secret not in repr(thing)
        assert secret not in msgspec.json.encode(thing).decode()


async def test_reprs_hide_tokens_and_secrets(ff: Driver) -> None:
    wait = await suspended(ff)
    secret = wait.waitpoint.waitpoint_token.partition(":")[2]
    stored = await stored_waitpoint(ff, wait.execution_id, wait.waitpoint.waitpoint_id)
    for thing in (wait.answer, wait.waitpoint, wait.delivery(), stored):
        assert secret not in repr(thing), type(thing)
        assert secret not in str(thing)
        assert secret not in rich(thing)
    for command in (
        SeedSecret(kid="k1", secret_hex=SECRET),
        RotateSecret(new_kid="k2", new_secret_hex=SECRET, grace_ms=0),
    ):
        assert SECRET not in repr(command)
        assert SECRET not in rich(command)


async def test_reprs_show_which_key_signed(ff: Driver) -> None:
    wait = await suspended(ff)
    assert "k1:<REDACTED:len=64>" in repr(wait.waitpoint)
    assert "k1:<REDACTED:len=64>" in repr(wait.delivery())


def rich(thing: object) -> str:
    """What consoles and tracebacks built on rich show of an object."""
    show = getattr(thing, "__rich_repr__", tuple)
    return repr(list(show()))
