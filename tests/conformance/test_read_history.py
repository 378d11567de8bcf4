"""What happened, in order: per execution, and of all of them together."""

from __future__ import annotations

import pytest

from flowfabric.model.limits import DAY_MS
from flowfabric.model.operations.finish import Cancel, Delay
from flowfabric.model.operations.lease import Renew, RevokeLease, UpdateProgress
from flowfabric.model.operations.operate import (
    Block,
    ChangePriority,
    Pause,
    Replay,
    SetTags,
    Unblock,
    Unpause,
)
from flowfabric.model.operations.read import ReadHistory
from flowfabric.model.operations.read_list import FeedEntry, FeedPage, ReadFeed
from flowfabric.model.operations.timer import LoseDeadLease, MarkLeaseExpired, PromoteDelayed, Purge
from support.driver import LEASE, Driver
from support.frames import append, patch
from support.waiting import (
    let_go,
    open_pending,
    refused,
    suspend,
    suspended,
    unanswered,
)


async def moves(ff: Driver, execution_id: str) -> list[tuple[str, str, str]]:
    return [(line.event, line.from_state, line.to_state) for line in await ff.history(execution_id)]


async def feed(ff: Driver, after: int = 0, limit: int = 1_000) -> list[FeedEntry]:
    return list((await ff.store.read(ReadFeed(after=after, limit=limit))).entries)


async def test_a_life_with_a_retry(ff: Driver) -> None:
    task = await ff.running(policy={"retry_policy": {"max_retries": 1}})
    await ff.fail(task)
    ff.clock.advance(1_000)
    await ff.store.apply(PromoteDelayed(execution_id=task.execution_id))
    await ff.complete(await ff.claim_one())
    assert await moves(ff, task.execution_id) == [
        ("created", "", "waiting"),
        ("claimed", "waiting", "active"),
        ("retry_scheduled", "active", "delayed"),
        ("promoted", "delayed", "waiting"),
        ("claimed", "waiting", "active"),
        ("completed", "active", "completed"),
    ]


async def test_a_life_with_waits(ff: Driver) -> None:
    wait = await suspended(ff)
    await wait.signal()
    task = await ff.claim_one()
    await ff.store.apply(Delay(execution_id=task.execution_id, fence=task.fence, delay_until=ff.now + 5))
    ff.clock.advance(5)
    await ff.store.apply(PromoteDelayed(execution_id=task.execution_id))
    await ff.fail(await ff.claim_one())
    await ff.store.apply(Replay(execution_id=task.execution_id))
    assert await moves(ff, task.execution_id) == [
        ("created", "", "waiting"),
        ("claimed", "waiting", "active"),
        ("suspended", "active", "suspended"),
        ("signal", "suspended", "suspended"),
        ("resumed", "suspended", "waiting"),
        ("resumed_claim", "waiting", "active"),
        ("delayed", "active", "delayed"),
        ("promoted", "delayed", "waiting"),
        ("resumed_claim", "waiting", "active"),
        ("failed", "active", "failed"),
        ("replayed", "failed", "waiting"),
    ]


async def test_a_life_with_lost_leases(ff: Driver) -> None:
    task = await ff.running()
    ff.clock.advance(LEASE)
    await ff.store.apply(MarkLeaseExpired(execution_id=task.execution_id))
    await let_go(ff, await ff.claim_one())
    await ff.claim_one()
    await ff.store.apply(RevokeLease(execution_id=task.execution_id))
    await ff.claim_one()
    await ff.store.apply(LoseDeadLease(execution_id=task.execution_id, worker_instance_id="w1-a"))
    assert [name for name, _, _ in await moves(ff, task.execution_id)] == [
        "created",
        "claimed",
        "lease_expired",
        "reclaimed",
        "released",
        "reclaimed",
        "lease_revoked",
        "reclaimed",
        "worker_dead",
    ]
    assert {(came, went) for _, came, went in (await moves(ff, task.execution_id))[2:]} == {
        ("active", "active")
    }


async def test_a_life_under_operators(ff: Driver) -> None:
    execution_id = await ff.create()
    await ff.store.apply(Pause(execution_id=execution_id))
    await ff.store.apply(Unpause(execution_id=execution_id))
    await ff.store.apply(Block(execution_id=execution_id, blocking_reason="waiting_for_budget"))
    await ff.store.apply(Unblock(execution_id=execution_id))
    await ff.store.apply(ChangePriority(execution_id=execution_id, priority=5))
    await ff.store.apply(SetTags(execution_id=execution_id, tags=(("team", "a"),)))
    await ff.store.apply(Cancel(execution_id=execution_id, source="operator_override", reason="no"))
    assert await moves(ff, execution_id) == [
        ("created", "", "waiting"),
        ("paused", "waiting", "waiting"),
        ("unpaused", "waiting", "waiting"),
        ("blocked", "waiting", "rate_limited"),
        ("unblocked", "rate_limited", "waiting"),
        ("priority_changed", "waiting", "waiting"),
        ("tagged", "waiting", "waiting"),
        ("cancelled", "waiting", "cancelled"),
    ]
    assert (await ff.history(execution_id))[-1].reason == "no"


async def test_lines_are_numbered_without_gaps(ff: Driver) -> None:
    task = await ff.running()
    ff.clock.advance(3)
    await ff.complete(task)
    lines = await ff.history(task.execution_id)
    assert [line.seq for line in lines] == [1, 2, 3]
    assert [line.at for line in lines] == [ff.now - 3, ff.now - 3, ff.now]
    assert [line.attempt_index for line in lines[1:]] == [0, 0]
    assert [line.lease_epoch for line in lines] == [0, 1, 1]


async def test_renewals_and_progress_leave_no_line(ff: Driver) -> None:
    task = await ff.running()
    before = await ff.history(task.execution_id)
    await ff.store.apply(Renew(execution_id=task.execution_id, fence=task.fence))
    await ff.store.apply(UpdateProgress(execution_id=task.execution_id, fence=task.fence, pct=5))
    await append(ff, task, b"x")
    assert await ff.history(task.execution_id) == before


async def test_what_changes_nothing_leaves_no_line(ff: Driver) -> None:
    execution_id = await ff.create()
    await ff.store.apply(Pause(execution_id=execution_id))
    before = await ff.history(execution_id)
    await ff.store.apply(Pause(execution_id=execution_id))
    await refused(ff, Replay(execution_id=execution_id), "execution_not_terminal")
    assert await ff.history(execution_id) == before


async def test_lines_name_who_did_it(ff: Driver) -> None:
    execution_id = await ff.create(actor="alice")
    task = await ff.claim_one()
    await ff.fail(task, category="permanent", reason="boom")
    await ff.store.apply(Replay(execution_id=execution_id, actor="bob", reason="once more"))
    created, claimed, failed, replayed = await ff.history(execution_id)
    assert (created.actor, replayed.actor, replayed.reason) == ("alice", "bob", "once more")
    assert claimed.actor == failed.actor != ""
    assert claimed.actor in {"w1", "w1-a"}
    assert failed.reason == "boom"
    ff.clock.advance(1)
    again = await ff.claim_one(worker_id="w2", worker_instance_id="w2-a")
    ff.clock.advance(LEASE)
    await ff.store.apply(MarkLeaseExpired(execution_id=again.execution_id, actor="timer"))
    claimed, expired = (await ff.history(execution_id))[-2:]
    assert claimed.actor in {"w2", "w2-a"}
    assert expired.actor == "timer"


async def test_pages_of_history(ff: Driver) -> None:
    task = await ff.running()
    for number in range(5):
        await ff.store.apply(SetTags(execution_id=task.execution_id, tags=(("n", str(number)),)))
    seen, after, pages = [], 0, 0
    while True:
        page = await ff.store.read(ReadHistory(execution_id=task.execution_id, after=after, limit=3))
        seen += [line.seq for line in page.events]
        pages += 1
        after = page.next
        if not after:
            break
    assert (seen, pages) == ([1, 2, 3, 4, 5, 6, 7], 3)
    await unanswered(ff, ReadHistory(execution_id=ff.new_id()), "execution_not_found")


@pytest.mark.parametrize("limit", [0, 1_001, -1])
async def test_pages_have_limits(ff: Driver, limit: int) -> None:
    task = await ff.running()
    question = ReadHistory(execution_id=task.execution_id, limit=limit)
    assert (await unanswered(ff, question, "invalid_input")).field == "limit"
    assert (await unanswered(ff, ReadFeed(limit=limit), "invalid_input")).field == "limit"


async def test_the_feed_is_the_history_of_everything(ff: Driver) -> None:
    one = await ff.create(namespace="a", lane_id="l1", execution_kind="x")
    two = await ff.create(namespace="b", lane_id="l2", execution_kind="y")
    task = await ff.claim_one(lanes=("l2",))
    await ff.store.apply(SetTags(execution_id=one, tags=(("t", "1"),)))
    await ff.complete(task)
    entries = await feed(ff)
    assert [(entry.execution_id, entry.event.event) for entry in entries] == [
        (one, "created"),
        (two, "created"),
        (two, "claimed"),
        (one, "tagged"),
        (two, "completed"),
    ]
    positions = [entry.position for entry in entries]
    assert positions == sorted(set(positions))
    places = {(entry.namespace, entry.lane_id, entry.execution_kind) for entry in entries}
    assert places == {("a", "l1", "x"), ("b", "l2", "y")}
    for execution_id in (one, two):
        own = [entry.event for entry in entries if entry.execution_id == execution_id]
        assert own == await ff.history(execution_id)


async def test_the_feed_goes_on_where_it_stopped(ff: Driver) -> None:
    made = [await ff.create() for _ in range(5)]
    first = await ff.store.read(ReadFeed(limit=2))
    second = await ff.store.read(ReadFeed(after=first.next, limit=2))
    third = await ff.store.read(ReadFeed(after=second.next, limit=2))
    pages = [[entry.execution_id for entry in page.entries] for page in (first, second, third)]
    assert pages == [made[:2], made[2:4], made[4:]]
    position = third.entries[-1].position
    assert (await ff.store.read(ReadFeed(after=third.next))).entries == ()
    idle = await ff.store.read(ReadFeed(after=position))
    assert (idle.entries, idle.next) == ((), position)
    assert await feed(ff, position) == []
    late = await ff.create()
    assert [entry.execution_id for entry in await feed(ff, position)] == [late]


async def test_a_purge_leaves_nothing_behind(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running(policy={"stream_policy": {"retention_ttl_ms": 1_000}}, input_payload=b"in")
    other = await ff.running()
    await append(ff, task, b"x")
    await ff.store.apply(patch(task, {"a": 1}))
    await open_pending(ff, task, expires_in_ms=10**9)
    wait = await suspend(ff, task, step_name="wait")
    await wait.signal(payload=b"p")
    await let_go(ff, await ff.claim_one())
    await ff.complete(await ff.claim_one(), b"out")
    ff.clock.advance(999)
    await ff.store.apply(Purge(execution_id=task.execution_id))
    assert (await ff.show(task.execution_id)).public_state == "completed"
    ff.clock.advance(1)
    await ff.store.apply(Purge(execution_id=task.execution_id))
    dump = await ff.store.dump()
    uuid = task.execution_id.partition(":")[2].partition(":")[2]
    assert uuid
    assert dump.records.pop("past")  # for a day, the feed still tells of it
    for part in (dump.records, dump.indexes, dump.history, dump.frames):
        assert uuid not in repr(part)
    await unanswered(ff, ReadHistory(execution_id=task.execution_id), "execution_not_found")
    assert (await ff.show(other.execution_id)).public_state == "active"
    assert await ff.history(other.execution_id)


async def test_only_ended_work_is_purged(ff: Driver) -> None:
    task = await ff.running(policy={"stream_policy": {"retention_ttl_ms": 1}})
    ff.clock.advance(10**9)
    await ff.store.apply(Purge(execution_id=task.execution_id))
    assert (await ff.show(task.execution_id)).public_state == "active"
    await ff.store.apply(Purge(execution_id=ff.new_id()))


async def test_a_purge_leaves_no_gap_in_the_feed(ff: Driver) -> None:
    task = await ff.running(policy={"stream_policy": {"retention_ttl_ms": 1}})
    await ff.complete(task)
    await ff.create()
    before = await ff.store.read(ReadFeed(limit=1_000))
    ff.clock.advance(1)
    await ff.store.apply(Purge(execution_id=task.execution_id))
    assert await ff.store.read(ReadFeed(limit=1_000)) == before
    first, second = (entry.position for entry in before.entries[:2])
    following = await ff.store.read(ReadFeed(after=first, limit=1))
    assert following == FeedPage(before.entries[1:2], second, 0, before.last)
    ff.clock.advance(DAY_MS - 1)
    assert await ff.store.collect() == 1  # the worker, which is gone
    assert await ff.store.read(ReadFeed(limit=1_000)) == before


async def test_after_a_day_the_feed_says_from_where_on_it_is_whole(ff: Driver) -> None:
    task = await ff.running(policy={"stream_policy": {"retention_ttl_ms": 1}})
    await ff.complete(task)
    other = await ff.create()
    created, claimed, completed, last = [
        entry.position for entry in (await ff.store.read(ReadFeed())).entries
    ]
    assert created < claimed
    ff.clock.advance(1)
    await ff.store.apply(Purge(execution_id=task.execution_id))
    ff.clock.advance(DAY_MS)
    assert await ff.store.collect(limit=2) >= 2
    assert (await ff.store.read(ReadFeed())).floor == claimed
    await ff.store.collect()
    page = await ff.store.read(ReadFeed())
    assert [entry.execution_id for entry in page.entries] == [other]
    assert (page.floor, page.next, page.last) == (completed, last, last)
