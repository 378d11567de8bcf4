"""Lists: executions by every filter, lanes with their counts, and the inbox."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.errors import InvalidInput
from flowfabric.model.ids import execution_id, partition_in
from flowfabric.model.limits import DAY_MS, MAX_INT
from flowfabric.model.operations.finish import Cancel
from flowfabric.model.operations.lane import LaneView, ListLanes, PauseLane, UnpauseLane
from flowfabric.model.operations.operate import Pause, SetTags
from flowfabric.model.operations.read_list import (
    FindExecutions,
    IdPage,
    ListExecutions,
    ListPartition,
    ListQueue,
)
from flowfabric.model.operations.signal import ReadInbox
from flowfabric.model.operations.suspend_waitpoint import CloseWaitpoint
from flowfabric.model.operations.timer import Purge
from flowfabric.model.records import Execution
from flowfabric.model.state import Public
from support.driver import Driver, new_uuid
from support.waiting import open_pending, suspend, suspended, unanswered

UNKNOWN = "00000000-0000-4000-8000-000000000000"


async def found(ff: Driver, **fields: Any) -> list[str]:
    page = await ff.store.read(ListExecutions(**fields))
    assert page.next == 0
    return [run.execution_id for run in page.runs]


async def every_page(ff: Driver, **fields: Any) -> list[list[Execution]]:
    pages, after = [], 0
    for _ in range(100):
        page = await ff.store.read(ListExecutions(after=after, **fields))
        pages.append(list(page.runs))
        after = page.next
        if not after:
            return pages
    raise AssertionError("the list never ends")


async def test_the_newest_come_first_unless_asked_otherwise(ff: Driver) -> None:
    made = []
    for _ in range(4):
        made.append(await ff.create())
        ff.clock.advance(1)
    assert await found(ff) == made[::-1]
    assert await found(ff, newest_first=False) == made
    assert await found(ff, newest_first=False, limit=4) == made


async def test_the_order_holds_within_one_millisecond(ff: Driver) -> None:
    made = [await ff.create() for _ in range(6)]
    oldest = [run.execution_id for page in await every_page(ff, newest_first=False, limit=2) for run in page]
    newest = [run.execution_id for page in await every_page(ff, limit=2) for run in page]
    assert newest == oldest[::-1]
    assert sorted(oldest) == sorted(made)


@pytest.fixture
async def zoo(ff: Driver) -> dict[str, str]:
    """Executions that differ in one thing each."""
    names = {"plain": await ff.create()}
    ff.clock.advance(1_000)
    names["lane"] = await ff.create(lane_id="other")
    names["space"] = await ff.create(namespace="team")
    names["kind"] = await ff.create(execution_kind="report")
    names["tag"] = await ff.create(tags=(("env", "prod"), ("owner", "ann")))
    names["tag2"] = await ff.create(tags=(("env", "prod"), ("owner", "bob")))
    names["later"] = await ff.create(delay_until=ff.now + 10**9)
    names["gone"] = await ff.create()
    await ff.store.apply(Cancel(execution_id=names["gone"], source="operator_override"))
    ff.clock.advance(1_000)
    names["last"] = await ff.create()
    return names


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"lane_id": "other"}, "lane"),
        ({"namespace": "team"}, "space"),
        ({"execution_kind": "report"}, "kind"),
        ({"states": (Public.DELAYED,)}, "later"),
        ({"states": (Public.DELAYED, Public.CANCELLED)}, "later gone"),
        ({"states": (Public.COMPLETED,)}, ""),
        ({"lane_id": "default", "states": (Public.CANCELLED,)}, "gone"),
        ({"lane_id": "other", "states": (Public.CANCELLED,)}, ""),
        ({"tags": (("env", "prod"),)}, "tag tag2"),
        ({"tags": (("env", "prod"), ("owner", "bob"))}, "tag2"),
        ({"tags": (("env", "test"),)}, ""),
        (
            {"created_after": 1_700_000_000_500, "created_before": 1_700_000_001_500, "namespace": "team"},
            "space",
        ),
        ({"created_after": 1_700_000_001_500}, "last"),
        ({"created_before": 1_700_000_000_500}, "plain"),
        ({"flow_id": "11111111-1111-1111-1111-111111111111"}, ""),
        ({"lane_id": "nowhere"}, ""),
        ({"lane_id": "default", "namespace": "team", "execution_kind": "job"}, "space"),
    ],
)
async def test_filters(ff: Driver, zoo: dict[str, str], filters: dict[str, Any], names: str) -> None:
    expected = [zoo[name] for name in names.split()]
    assert await found(ff, newest_first=False, **filters) == expected
    assert await found(ff, **filters) == expected[::-1]


async def test_a_state_that_changed_is_found_under_its_new_name(ff: Driver) -> None:
    task = await ff.running()
    by_state = {"lane_id": "default"}
    assert await found(ff, states=(Public.ACTIVE,), **by_state) == [task.execution_id]
    await ff.complete(task)
    assert await found(ff, states=(Public.ACTIVE,), **by_state) == []
    assert await found(ff, states=(Public.COMPLETED,), **by_state) == [task.execution_id]


async def test_a_tag_that_was_set_later_is_found(ff: Driver) -> None:
    execution_id = await ff.create(tags=(("env", "test"),))
    await ff.store.apply(SetTags(execution_id=execution_id, tags=(("env", "prod"),)))
    assert await found(ff, tags=(("env", "prod"),)) == [execution_id]
    assert await found(ff, tags=(("env", "test"),)) == []


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("filters", [{}, {"lane_id": "default"}, {"tags": (("t", "1"),)}])
async def test_pages_neither_repeat_nor_miss(ff: Driver, newest: bool, filters: dict[str, Any]) -> None:
    made = [await ff.create(tags=(("t", "1"),)) for _ in range(7)]
    pages = await every_page(ff, newest_first=newest, limit=3, **filters)
    assert [len(page) for page in pages] == [3, 3, 1]
    seen = [run.execution_id for page in pages for run in page]
    assert seen == (made[::-1] if newest else made)


async def test_what_comes_in_between_disturbs_no_page(ff: Driver) -> None:
    made = [await ff.create() for _ in range(4)]
    first = await ff.store.read(ListExecutions(limit=2))
    ff.clock.advance(1)
    late = await ff.create()
    second = await ff.store.read(ListExecutions(limit=2, after=first.next))
    seen = [run.execution_id for page in (first, second) for run in page.runs]
    assert seen == made[::-1]
    assert late in await found(ff)
    first = await ff.store.read(ListExecutions(limit=2, newest_first=False))
    later = await ff.create()
    pages = [first]
    while pages[-1].next:
        pages.append(await ff.store.read(ListExecutions(limit=2, newest_first=False, after=pages[-1].next)))
    assert [run.execution_id for page in pages for run in page.runs] == [*made, late, later]


async def test_a_page_looks_at_ten_rows_for_each_that_it_shows(ff: Driver) -> None:
    wanted = await ff.create(execution_kind="rare")
    for _ in range(25):
        ff.clock.advance(1)
        await ff.create()
    pages = await every_page(ff, execution_kind="rare", limit=1)
    assert [[run.execution_id for run in page] for page in pages[:3]] == [[], [], [wanted]]


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"states": (Public.WAITING,)},
        {"states": (Public.DELAYED, Public.CANCELLED, Public.WAITING)},
        {"eligible": True},
        {"lane_id": "default"},
        {"lane_id": "default", "states": (Public.WAITING,)},
        {"tags": (("env", "prod"),)},
    ],
)
async def test_what_others_have_shortens_no_page(ff: Driver, newest: bool, filters: dict[str, Any]) -> None:
    """A list of one namespace is driven by an index of its own, whatever else is asked for."""
    mine = []
    for place in range(6):
        for _ in range(4):
            await ff.create(tags=(("env", "prod"),))
        mine.append(await ff.create(tags=(("env", "prod"),), namespace="team"))
        if place % 2:
            await ff.create(namespace="team", lane_id="other", delay_until=ff.now + 10**9)
        ff.clock.advance(1)
    if not filters or Public.DELAYED in filters.get("states", ()):
        filters = {**filters, "created_before": ff.now, "execution_kind": "job"}
        ours = [run.execution_id for page in await every_page(ff, namespace="team") for run in page]
        mine = ours[::-1]
    pages = await every_page(ff, namespace="team", newest_first=newest, limit=2, **filters)
    assert {len(page) for page in pages[:-1]} == {2}, "full pages"
    seen = [run.execution_id for page in pages for run in page]
    assert seen == (mine[::-1] if newest else mine)


async def test_lists_of_a_namespace_follow_what_happens(ff: Driver) -> None:
    task = await ff.running(namespace="team", tags=(("env", "test"),))
    await ff.create(namespace="team2")
    waiting = {"namespace": "team", "states": (Public.WAITING,)}
    active = {"namespace": "team", "states": (Public.ACTIVE,)}
    assert (await found(ff, **waiting), await found(ff, **active)) == ([], [task.execution_id])
    await ff.store.apply(SetTags(execution_id=task.execution_id, tags=(("env", "prod"),)))
    assert await found(ff, namespace="team", tags=(("env", "test"),)) == []
    assert await found(ff, namespace="team", tags=(("env", "prod"),)) == [task.execution_id]
    assert await found(ff, namespace="team2", tags=(("env", "prod"),)) == []
    await ff.complete(task)
    assert await found(ff, **active) == []
    assert await found(ff, namespace="team", lane_id="default", states=(Public.COMPLETED,)) == [
        task.execution_id
    ]
    ff.clock.advance(10 * DAY_MS)
    await ff.store.apply(Purge(execution_id=task.execution_id))
    for more in ({}, {"lane_id": "default"}, {"tags": (("env", "prod"),)}):
        assert await found(ff, namespace="team", **more) == []
    partition = partition_in(task.execution_id)
    assert (await ff.store.read(ListPartition(partition=partition, namespace="team"))).ids == ()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 1_001}, "limit"),
        ({"lane_id": "x" * 65}, "lane_id"),
        ({"after": -1}, "after"),
        ({"created_after": -1}, "created_after"),
    ],
)
async def test_questions_are_checked(ff: Driver, fields: dict[str, Any], field: str) -> None:
    assert (await unanswered(ff, ListExecutions(**fields), "invalid_input")).field == field


async def lanes(ff: Driver) -> dict[str, LaneView]:
    return {lane.lane_id: lane for lane in await ff.store.read(ListLanes())}


def counted(lane: LaneView) -> dict[str, int]:
    return {str(state): count for state, count in lane.counts if count}


async def test_lanes_count_their_work(ff: Driver) -> None:
    await ff.seed()
    start = ff.now
    done = await ff.running(lane_id="b")
    await ff.complete(done)
    await suspend(ff, await ff.running(lane_id="a"))
    await ff.running(lane_id="a")
    await ff.create(lane_id="a")
    ff.clock.advance(5)
    await ff.create(lane_id="a")
    await ff.create(lane_id="a", delay_until=ff.now + 5)
    await ff.create(lane_id="a", namespace="team")
    assert [lane.lane_id for lane in await ff.store.read(ListLanes())] == ["a", "b"]
    shown = await lanes(ff)
    assert counted(shown["a"]) == {"waiting": 3, "active": 1, "suspended": 1, "delayed": 1}
    assert counted(shown["b"]) == {"completed": 1}
    assert (shown["a"].oldest_waiting_at, shown["b"].oldest_waiting_at) == (start, 0)
    await ff.claim_one(lanes=("a",))
    shown = await lanes(ff)
    assert counted(shown["a"])["waiting"] == 2
    assert shown["a"].oldest_waiting_at == start + 5


async def test_lanes_tell_of_their_pause(ff: Driver) -> None:
    await ff.store.apply(PauseLane(lane_id="a", reason="night"))
    lane = (await lanes(ff))["a"]
    assert (lane.paused_at, lane.pause_reason, counted(lane)) == (ff.now, "night", {})
    await ff.store.apply(UnpauseLane(lane_id="a"))
    lane = (await lanes(ff))["a"]
    assert (lane.paused_at, lane.pause_reason) == (0, "")


async def test_the_inbox_shows_everything_that_waits_for_a_signal(ff: Driver) -> None:
    first = await suspended(ff, reason_code="waiting_for_approval", timeout_ms=900)
    ff.clock.advance(5)
    task = await ff.running(namespace="team", lane_id="other")
    ahead = await open_pending(ff, task)
    ff.clock.advance(5)
    last = await suspend(ff, await ff.running())
    page = await ff.store.read(ReadInbox())
    assert [view.waitpoint_id for view in page.waitpoints] == [
        first.waitpoint.waitpoint_id,
        ahead.waitpoint_id,
        last.waitpoint.waitpoint_id,
    ]
    view = page.waitpoints[0]
    assert (view.execution_id, view.reason_code, view.required_signal_names) == (
        first.execution_id,
        "waiting_for_approval",
        ("go",),
    )
    assert (view.created_at, view.expires_at, view.state) == (ff.now - 10, ff.now + 890, "active")
    assert [view.state for view in page.waitpoints] == ["active", "pending", "active"]
    await first.signal()
    await ff.complete(task)
    assert [view.waitpoint_id for view in (await ff.store.read(ReadInbox())).waitpoints] == [
        last.waitpoint.waitpoint_id
    ]


async def test_a_waitpoint_that_is_opened_again_is_the_last_of_the_inbox(ff: Driver) -> None:
    """Whoever has read the inbox up to here, and reads on, meets it."""
    await ff.seed()
    task = await ff.running()
    again = await open_pending(ff, task)
    other = await open_pending(ff, task, key="p1")
    seen = (await ff.store.read(ReadInbox(limit=1))).next
    await ff.store.apply(CloseWaitpoint(execution_id=task.execution_id, waitpoint_id=again.waitpoint_id))
    await open_pending(ff, task, waitpoint_id=again.waitpoint_id)
    for after in (0, seen):
        page = await ff.store.read(ReadInbox(after=after))
        assert [view.waitpoint_id for view in page.waitpoints] == [other.waitpoint_id, again.waitpoint_id]


async def test_the_inbox_has_pages(ff: Driver) -> None:
    await ff.seed()
    waits = []
    for _ in range(5):
        waits.append(await suspend(ff, await ff.running()))
        ff.clock.advance(1)
    seen: list[str] = []
    after = 0
    sizes = []
    while True:
        page = await ff.store.read(ReadInbox(after=after, limit=2))
        seen += [view.waitpoint_id for view in page.waitpoints]
        sizes.append(len(page.waitpoints))
        after = page.next
        if not after:
            break
    assert sizes == [2, 2, 1]
    assert seen == [wait.waitpoint.waitpoint_id for wait in waits]


async def test_the_inbox_of_a_namespace_is_full_of_its_own(ff: Driver) -> None:
    await ff.seed()
    mine = []
    for _ in range(3):
        await suspend(ff, await ff.running())
        await suspend(ff, await ff.running())
        mine.append(await suspend(ff, await ff.running(namespace="team")))
    ids = [wait.waitpoint.waitpoint_id for wait in mine]
    page = await ff.store.read(ReadInbox(namespace="team", limit=2))
    assert [view.waitpoint_id for view in page.waitpoints] == ids[:2]
    rest = await ff.store.read(ReadInbox(namespace="team", limit=2, after=page.next))
    assert ([view.waitpoint_id for view in rest.waitpoints], rest.next) == (ids[2:], 0)
    await mine[0].signal()
    page = await ff.store.read(ReadInbox(namespace="team"))
    assert [view.waitpoint_id for view in page.waitpoints] == ids[1:]
    assert (await ff.store.read(ReadInbox(namespace="nobody"))).waitpoints == ()


async def test_a_partition_lists_its_ids_in_order(ff: Driver) -> None:
    mine = [execution_id(7, new_uuid()) for _ in range(5)]
    others = [execution_id(partition, new_uuid()) for partition in (0, 6, 8, 70, 77)]
    for place, name in enumerate(mine + others):
        await ff.create(execution_id=name, namespace="team" if place % 2 else "default")
    mine.sort()
    assert await ff.store.read(ListPartition(partition=7)) == IdPage(tuple(mine), "")
    first = await ff.store.read(ListPartition(partition=7, limit=3))
    assert first == IdPage(tuple(mine[:3]), mine[2])
    rest = await ff.store.read(ListPartition(partition=7, limit=3, after=first.next))
    assert rest == IdPage(tuple(mine[3:]), "")
    team = await ff.store.read(ListPartition(partition=7, namespace="team"))
    assert len(team.ids) == 2
    one = await ff.store.read(ListPartition(partition=7, namespace="team", limit=1))
    assert one == IdPage(team.ids[:1], team.ids[0])
    rest = await ff.store.read(ListPartition(partition=7, namespace="team", limit=1, after=one.next))
    assert rest == IdPage(team.ids[1:], "")
    assert (await ff.store.read(ListPartition(partition=9))).ids == ()


async def test_eligible_work_can_be_listed(ff: Driver) -> None:
    ready, held, later = await ff.create(), await ff.create(), await ff.create(delay_until=ff.clock() + 9_999)
    await ff.store.apply(Pause(execution_id=held))
    assert await found(ff, eligible=True) == [ready]
    assert await found(ff, eligible=True, lane_id="default") == [ready]
    assert await found(ff, eligible=True, states=(Public.DELAYED,)) == [later, ready]


async def test_the_queue_of_a_lane_is_the_order_of_claims(ff: Driver) -> None:
    low = await ff.create(execution_kind="a")
    high = await ff.create(priority=5, policy={"routing_requirements": {"required_capabilities": ["gpu"]}})
    ff.clock.advance(1)
    last = await ff.create(execution_kind="b")
    await ff.create(lane_id="other")
    await ff.create(delay_until=ff.clock() + 9_999)
    first = await ff.store.read(ListQueue(lane_id="default", limit=2))
    assert [run.execution_id for run in first.runs] == [high, low]
    assert first.next is not None
    rest = await ff.store.read(ListQueue(lane_id="default", limit=2, after=first.next))
    assert ([run.execution_id for run in rest.runs], rest.next) == ([last], None)


async def test_the_queue_of_one_namespace(ff: Driver) -> None:
    mine = []
    for kind in "abc":
        for _ in range(4):
            await ff.create(execution_kind=kind)
        mine.append(await ff.create(execution_kind=kind, namespace="team"))
        ff.clock.advance(1)
    seen, after, reads = [], (-MAX_INT, ""), 0
    while True:
        page = await ff.store.read(ListQueue(lane_id="default", namespace="team", limit=1, after=after))
        reads += 1
        seen += [run.execution_id for run in page.runs]
        if page.next is None:
            break
        after = page.next
    assert seen == mine
    assert reads <= 4, "ten rows for each one asked are looked at"


async def test_the_lanes_of_one_namespace(ff: Driver) -> None:
    await ff.create(lane_id="mine", namespace="team")
    await ff.create(lane_id="shared", namespace="team")
    await ff.create(lane_id="shared")
    await ff.create(lane_id="theirs")
    await ff.store.apply(PauseLane(lane_id="shared"))
    lanes = await ff.store.read(ListLanes(namespace="team"))
    assert [(lane.lane_id, lane.counts, bool(lane.paused_at)) for lane in lanes] == [
        ("mine", ((Public.WAITING, 1),), False),
        ("shared", ((Public.WAITING, 1),), True),
    ]


async def test_executions_are_found_by_the_beginning_of_their_uuid(ff: Driver) -> None:
    uuids = [f"{start}-0000-4000-8000-{'0' * 12}" for start in ("abcd0002", "abcd0001", "abce0000")]
    made = [
        await ff.create(execution_id=execution_id(partition, uuid), namespace=namespace)
        for partition, uuid, namespace in zip((7, 255, 0), uuids, ("a", "b", "a"), strict=True)
    ]

    async def ids(prefix: str, **fields: Any) -> list[str]:
        return list(await ff.store.read(FindExecutions(prefix=prefix, **fields)))

    assert await ids("abcd") == [made[1], made[0]]
    assert await ids("abcd0002-0000") == [made[0]]
    assert await ids("abcd", limit=1) == [made[1]]
    assert await ids("abcd", namespace="a") == [made[0]]
    assert await ids(uuids[2]) == [made[2]]
    assert await ids("abcf") == await ids("abcd", namespace="c") == []
    twin = await ff.create(execution_id=execution_id(9, uuids[2]))  # where an idempotency key places it
    assert sorted(await ids(uuids[2])) == sorted([made[2], twin])


@pytest.mark.parametrize(
    "prefix", ["", "abc", "ABCD", "abcg", "abcd*", "abcd00000", "a" * 8 + "-" * 2, f"{UNKNOWN}0"]
)
async def test_what_begins_no_uuid_is_refused(ff: Driver, prefix: str) -> None:
    with pytest.raises(InvalidInput, match="prefix"):
        await ff.store.read(FindExecutions(prefix=prefix))
