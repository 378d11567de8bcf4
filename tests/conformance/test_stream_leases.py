"""Frames know the lease and the step that emitted them, and what a newer lease supersedes follows from that."""

from __future__ import annotations

import pytest

from flowfabric.engine.superseded import Supersession
from flowfabric.model.ids import parse_entry_id
from flowfabric.model.limits import MAX_STREAM_LEASES
from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.operate import Replay
from flowfabric.model.operations.step import PutStep
from flowfabric.model.superseded import Superseded, lease_of
from support.driver import Driver
from support.frames import append, frames, read, stream_record, tail
from support.waiting import let_go, refused, suspend


async def resumed(ff: Driver, task: Task) -> Task:
    """Suspend and resume, so that the same attempt goes on under the next lease."""
    await (await suspend(ff, task)).signal()
    return await ff.claim_one()


async def put(ff: Driver, task: Task, name: str) -> None:
    await ff.store.apply(
        PutStep(execution_id=task.execution_id, fence=task.fence, step_name=name, result=b"1")
    )


async def supersession(ff: Driver, task: Task, last: str) -> Superseded:
    """Ask what the lease after that of a frame has superseded."""
    entry = parse_entry_id("last", last)
    lease = lease_of((await tail(ff, task)).leases, entry)
    assert lease is not None
    asking = Supersession(ff.store.read, task.execution_id)
    return await asking.lease_ended(task.attempt_index, lease, entry)


async def test_frames_carry_the_lease_and_the_step(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    await append(ff, task, b"1")
    await append(ff, task, b"2", step="write")
    again = await resumed(ff, task)
    assert (again.attempt_index, again.fence.lease_epoch) == (0, 2)
    await append(ff, again, b"3", mode="best_effort", step="write#2")
    await append(ff, again, b"{}", mode="summary")
    shown = [view.frame for view in (await read(ff, task)).frames]
    assert [(frame.lease_epoch, frame.step) for frame in shown] == [
        (1, ""),
        (1, "write"),
        (2, "write#2"),
        (2, ""),
    ]
    await ff.complete(again)


async def test_a_new_attempt_has_a_stream_and_a_lease_of_its_own(ff: Driver) -> None:
    task = await ff.running()
    await append(ff, task, b"1")
    await let_go(ff, task)
    again = await ff.claim_one()
    await append(ff, again, b"2")
    for one, epoch in ((task, 1), (again, 2)):
        (view,) = (await read(ff, one)).frames
        assert view.frame.lease_epoch == epoch


async def test_the_name_of_the_step_is_checked(ff: Driver) -> None:
    task = await ff.running()
    assert (await refused(ff, frames(task, b"", step="s" * 257), "invalid_input")).field == "step"


async def test_a_stream_knows_where_its_leases_begin(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    assert (await tail(ff, task)).leases == ()
    (one, _) = await append(ff, task, b"1", b"2")
    await append(ff, task, b"3")
    task = await resumed(ff, await resumed(ff, task))
    (four,) = await append(ff, task, b"4")
    page = await tail(ff, task)
    starts = [(epoch, f"{ms}-{seq}") for epoch, ms, seq in page.leases]
    assert starts == [(1, one.entry_id), (3, four.entry_id)]
    assert (await tail(ff, task, four.entry_id)).leases == page.leases


async def test_the_oldest_leases_are_merged(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    ids = []
    for _ in range(MAX_STREAM_LEASES + 2):
        await put(ff, task, f"step {task.fence.lease_epoch}")
        ids += [(await append(ff, task, b"x"))[0].entry_id]
        task = await resumed(ff, task)
    leases = (await stream_record(ff, task)).leases
    assert len(leases) == MAX_STREAM_LEASES
    assert [epoch for epoch, *_ in leases] == list(range(3, MAX_STREAM_LEASES + 3))
    assert leases[0][1:] == parse_entry_id("first", ids[0])
    merged = await supersession(ff, task, ids[1])
    assert (merged.lease_epoch, merged.first) == (3, ids[0])
    assert merged.kept_steps == ("step 1", "step 2", "step 3")
    assert (await supersession(ff, task, ids[4])).kept_steps == ("step 5",)


async def test_steps_that_the_same_lease_stored_are_kept(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    (first,) = await append(ff, task, b"1", step="done")
    await put(ff, task, "done")
    (last,) = await append(ff, task, b"2", step="half")
    again = await resumed(ff, task)
    expected = Superseded(0, 1, first.entry_id, last.entry_id, 2, ("done",))
    assert await supersession(ff, task, last.entry_id) == expected
    await append(ff, again, b"2", step="half")
    await put(ff, again, "half")
    assert await supersession(ff, task, last.entry_id) == expected  # it was another lease that stored `half`
    asking = Supersession(ff.store.read, task.execution_id)
    shown = [view.frame for view in (await read(ff, task)).frames]
    assert [await asking.counts(frame, 2) for frame in shown] == [True, False, True]
    assert [await asking.counts(frame, 3) for frame in shown] == [True, False, True]


@pytest.mark.parametrize(
    ("fields", "kept"),
    [({}, ()), ({"keep_steps": True}, ("a", "b", "c")), ({"from_step": "b"}, ("a",))],
)
async def test_a_replay_keeps_what_its_steps_have_emitted(
    ff: Driver, fields: dict[str, bool | str], kept: tuple[str, ...]
) -> None:
    task = await ff.running()
    for name in ("a", "b"):
        await append(ff, task, b"x", step=name)
        await put(ff, task, name)
    await let_go(ff, task)
    again = await ff.claim_one()
    await put(ff, again, "c")
    await ff.complete(again)
    asking = Supersession(ff.store.read, task.execution_id)
    assert await asking.replay_after(1) is None
    await ff.store.apply(Replay(execution_id=task.execution_id, **fields))  # type: ignore[arg-type]
    assert await asking.replay_after(1) is None  # nobody has claimed it yet
    await ff.claim_one()
    assert await asking.replay_after(0) is None
    assert await asking.replay_after(1) == Superseded(1, 2, "start", "end", 3, kept, replayed=True)


async def test_a_replay_supersedes_nothing_where_nothing_was_streamed(ff: Driver) -> None:
    task = await ff.running()
    await ff.complete(task)
    await ff.store.apply(Replay(execution_id=task.execution_id))
    await ff.claim_one()
    assert await Supersession(ff.store.read, task.execution_id).replay_after(0) is None
