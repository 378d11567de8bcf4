"""Frames: appending, trimming, and reading them back."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.command import Fence
from flowfabric.model.limits import MAX_FRAME_BYTES
from flowfabric.model.operations.finish import Delay
from flowfabric.model.operations.lease import RevokeLease
from flowfabric.model.operations.stream import AppendFrames, FrameInput, ReadStream, TailStream
from support.driver import LEASE, Driver, new_uuid
from support.frames import append, frames, numbered, payloads, read, stream_record, tail
from support.waiting import let_go, refused, suspended, unanswered


def parts(entry_id: str) -> tuple[int, int]:
    ms, seq = entry_id.split("-")
    return int(ms), int(seq)


async def test_a_frame_comes_back_as_it_was_sent(ff: Driver) -> None:
    task = await ff.running()
    ff.clock.advance(4)
    (one,) = await append(
        ff,
        task,
        b"\x00\xff",
        frame_type="stdout",
        encoding="raw",
        correlation_id="c",
        source="tool",
        ts=77,
        metadata_json='{"a": 1}',
    )
    (two,) = await append(ff, task, b"plain")
    assert (one.frame_count, two.frame_count, one.summary_version) == (1, 2, 0)
    first, second = (await read(ff, task)).frames
    assert (first.entry_id, second.entry_id) == (one.entry_id, two.entry_id)
    frame = first.frame
    assert (frame.payload, frame.frame_type, frame.encoding) == (b"\x00\xff", "stdout", "raw")
    assert (frame.correlation_id, frame.source, frame.ts) == ("c", "tool", 77)
    assert (frame.metadata_json, frame.mode) == ('{"a": 1}', "durable")
    frame = second.frame
    assert (frame.frame_type, frame.encoding, frame.source, frame.ts) == ("event", "utf8", "worker", ff.now)
    assert (frame.correlation_id, frame.metadata_json, frame.summary_version) == ("", "", 0)


@pytest.mark.parametrize("mode", ["", "durable", "something else"])
async def test_every_other_mode_is_durable(ff: Driver, mode: str) -> None:
    task = await ff.running()
    await append(ff, task, b"x", mode=mode)
    assert [view.frame.mode for view in (await read(ff, task)).frames] == ["durable"]


async def test_entry_ids_only_grow(ff: Driver) -> None:
    task = await ff.running()
    start = ff.now
    ids = [one.entry_id for one in await append(ff, task, b"1", b"2", b"3")]
    ids += [(await append(ff, task, b"4"))[0].entry_id]
    ff.clock.advance(-500)
    ids += [(await append(ff, task, b"5"))[0].entry_id]
    ff.clock.advance(501)
    ids += [(await append(ff, task, b"6"))[0].entry_id]
    pairs = [parts(entry_id) for entry_id in ids]
    assert pairs == sorted(set(pairs))
    assert [ms for ms, _ in pairs] == [start] * 5 + [start + 1]
    assert payloads(await read(ff, task)) == numbered(1, 6)


async def test_a_call_is_all_or_nothing(ff: Driver) -> None:
    task = await ff.running()
    good, bad = FrameInput(b"{}", mode="summary"), FrameInput(b"nope", mode="summary")
    command = AppendFrames(execution_id=task.execution_id, fence=task.fence, frames=(good, bad))
    await refused(ff, command, "invalid_input")
    assert (await read(ff, task)).frames == ()


async def test_one_call_may_mix_modes(ff: Driver) -> None:
    task = await ff.running()
    mixed = (
        FrameInput(b"1"),
        FrameInput(b"{}", mode="summary"),
        FrameInput(b"3", mode="best_effort", ttl_ms=10),
    )
    answers = await ff.store.apply(
        AppendFrames(execution_id=task.execution_id, fence=task.fence, frames=mixed)
    )
    assert [(one.frame_count, one.summary_version) for one in answers] == [(1, 0), (2, 1), (3, 0)]
    shown = [view.frame for view in (await read(ff, task)).frames]
    assert [frame.mode for frame in shown] == ["durable", "summary", "best_effort"]
    assert [frame.summary_version for frame in shown] == [0, 1, 0]
    assert [frame.ttl_ms for frame in shown] == [0, 0, 10]


async def test_a_given_limit_trims_exactly(ff: Driver) -> None:
    task = await ff.running()
    for number in range(1, 8):
        (one,) = await append(ff, task, *numbered(number, number), retention_maxlen=3)
        assert one.frame_count == number
    assert payloads(await read(ff, task)) == numbered(5, 7)
    await append(ff, task, *numbered(8, 20), retention_maxlen=4)
    assert payloads(await read(ff, task)) == numbered(17, 20)
    assert (await stream_record(ff, task)).frame_count == 20


async def test_the_policy_limits_when_the_call_does_not(ff: Driver) -> None:
    task = await ff.running(policy={"stream_policy": {"retention_maxlen": 5}})
    await append(ff, task, *numbered(1, 9))
    assert payloads(await read(ff, task)) == numbered(5, 9)
    await append(ff, task, *numbered(10, 10), retention_maxlen=2)
    assert payloads(await read(ff, task)) == numbered(9, 10)


async def test_without_a_limit_ten_thousand_are_kept(ff: Driver) -> None:
    task = await ff.running()
    for first in range(1, 10_240, 256):
        await append(ff, task, *numbered(first, first + 255))
    kept = payloads(await read(ff, task))
    assert (len(kept), kept[0], kept[-1]) == (10_000, b"241", b"10240")


async def test_a_trimmed_frame_is_gone_from_every_read(ff: Driver) -> None:
    task = await ff.running()
    answers = await append(ff, task, *numbered(1, 5), retention_maxlen=2)
    assert payloads(await tail(ff, task)) == numbered(4, 5)
    assert payloads(await read(ff, task, to=answers[2].entry_id)) == []
    frames_kept = (await ff.store.dump()).frames[task.execution_id, 0]
    assert len(frames_kept) == 2


async def test_frames_have_a_limit(ff: Driver) -> None:
    task = await ff.running()
    assert MAX_FRAME_BYTES == 65_536
    await append(ff, task, b"x" * MAX_FRAME_BYTES)
    large = b"x" * (MAX_FRAME_BYTES + 1)
    await refused(ff, frames(task, large), "retention_limit_exceeded")
    await refused(ff, frames(task, large, fence=ff.stale(task)), "retention_limit_exceeded")


@pytest.mark.parametrize("count", [0, 257])
async def test_a_call_has_1_to_256_frames(ff: Driver, count: int) -> None:
    task = await ff.running()
    assert (await refused(ff, frames(task, *[b""] * count), "invalid_input")).field == "frames"
    assert len(await append(ff, task, *[b""] * 256)) == 256


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"frame_type": ""}, "frame_type"),
        ({"frame_type": "f" * 257}, "frame_type"),
        ({"correlation_id": "c" * 257}, "correlation_id"),
        ({"metadata_json": "m" * 4_097}, "metadata_json"),
        ({"retention_maxlen": -1}, "retention_maxlen"),
        ({"ttl_ms": 2**53}, "ttl_ms"),
        ({"ts": -1}, "ts"),
        ({"mode": "summary", "patch_kind": "xml"}, "patch_kind"),
    ],
)
async def test_every_field_is_checked(ff: Driver, fields: dict[str, Any], field: str) -> None:
    task = await ff.running()
    assert (await refused(ff, frames(task, b"{}", **fields), "invalid_input")).field == field


async def test_only_running_work_appends(ff: Driver) -> None:
    wait = await suspended(ff)
    await refused(ff, frames(wait.task, b"x"), "stream_closed")
    await wait.signal()
    await refused(ff, frames(wait.task, b"x"), "stream_closed")
    task = await ff.claim_one()
    await ff.complete(task)
    await refused(ff, frames(task, b"x"), "stream_closed")
    unknown = AppendFrames(execution_id=ff.new_id(), fence=task.fence, frames=(FrameInput(b"x"),))
    await refused(ff, unknown, "stream_closed")


@pytest.mark.parametrize("part", ["lease_id", "lease_epoch"])
async def test_only_the_holder_appends(ff: Driver, part: str) -> None:
    task = await ff.running()
    fence = {"lease_id": task.fence.lease_id, "lease_epoch": task.fence.lease_epoch} | {
        part: 9 if part == "lease_epoch" else new_uuid()
    }
    stale = Fence(attempt_id=task.attempt_id, **fence)  # type: ignore[arg-type]
    await refused(ff, frames(task, b"x", fence=stale), "stale_owner_cannot_append")


async def test_only_the_current_attempt_appends(ff: Driver) -> None:
    task = await ff.running()
    await refused(ff, frames(task, b"x", index=1), "stale_owner_cannot_append")
    assert await ff.store.apply(frames(task, b"x", index=0))
    await let_go(ff, task)
    await refused(ff, frames(task, b"x"), "stale_owner_cannot_append")
    await ff.claim_one()
    await refused(ff, frames(task, b"x"), "stale_owner_cannot_append")


async def test_an_expired_lease_appends_nothing_and_is_not_marked(ff: Driver) -> None:
    task = await ff.running()
    ff.clock.advance(LEASE)
    await refused(ff, frames(task, b"x"), "stale_owner_cannot_append")
    assert (await ff.show(task.execution_id)).ownership_state == "leased"


async def test_a_revoked_lease_appends_nothing(ff: Driver) -> None:
    task = await ff.running()
    await ff.store.apply(RevokeLease(execution_id=task.execution_id))
    await refused(ff, frames(task, b"x"), "stale_owner_cannot_append")


async def test_each_attempt_has_a_stream_of_its_own(ff: Driver) -> None:
    first = await ff.running()
    await append(ff, first, b"first")
    await let_go(ff, first)
    second = await ff.claim_one()
    (one,) = await append(ff, second, b"second")
    assert one.frame_count == 1
    assert payloads(await read(ff, first)) == [b"first"]
    assert payloads(await read(ff, second)) == [b"second"]


async def test_a_resumed_attempt_goes_on_with_its_stream(ff: Driver) -> None:
    task = await ff.running()
    await append(ff, task, b"1")
    await ff.store.apply(Delay(execution_id=task.execution_id, fence=task.fence, delay_until=ff.now))
    again = await ff.claim_one()
    (one,) = await append(ff, again, b"2")
    assert one.frame_count == 2
    assert payloads(await read(ff, task)) == [b"1", b"2"]


async def test_a_stream_never_written_looks_like_an_open_one(ff: Driver) -> None:
    task = await ff.running()
    for question in (read(ff, task), read(ff, task, attempt_index=9), tail(ff, task)):
        page = await question
        assert (page.frames, page.closed_at, page.closed_reason) == ((), 0, "")
    unknown = ReadStream(execution_id=ff.new_id(), attempt_index=0)
    await unanswered(ff, unknown, "execution_not_found")


async def test_reads_are_bounded_on_both_sides(ff: Driver) -> None:
    task = await ff.running()
    start = ff.now
    await append(ff, task, b"1", b"2")
    ff.clock.advance(10)
    await append(ff, task, b"3", b"4")
    ff.clock.advance(10)
    await append(ff, task, b"5")
    ids = [view.entry_id for view in (await read(ff, task)).frames]
    assert payloads(await read(ff, task, from_=ids[1], to=ids[3])) == [b"2", b"3", b"4"]
    assert payloads(await read(ff, task, from_=ids[2], to=ids[2])) == [b"3"]
    assert payloads(await read(ff, task, from_=str(start + 10))) == [b"3", b"4", b"5"]
    assert payloads(await read(ff, task, to=str(start + 10))) == [b"1", b"2", b"3", b"4"]
    assert payloads(await read(ff, task, from_=str(start + 1), to=str(start + 9))) == []
    assert payloads(await read(ff, task, from_=ids[3], to=ids[1])) == []
    assert payloads(await read(ff, task, count=2)) == [b"1", b"2"]
    assert payloads(await read(ff, task, from_=ids[1], count=2)) == [b"2", b"3"]


async def test_a_tail_goes_on_after_its_cursor(ff: Driver) -> None:
    task = await ff.running()
    await append(ff, task, *numbered(1, 5))
    page = await tail(ff, task, count=2)
    assert payloads(page) == numbered(1, 2)
    page = await tail(ff, task, page.frames[-1].entry_id, count=2)
    assert payloads(page) == numbered(3, 4)
    page = await tail(ff, task, page.frames[-1].entry_id)
    assert payloads(page) == numbered(5, 5)
    assert (await tail(ff, task, page.frames[-1].entry_id)).frames == ()


@pytest.mark.parametrize("fields", [{"count": 0}, {"count": 10_001}])
@pytest.mark.parametrize("kind", [ReadStream, TailStream])
async def test_counts_have_limits(ff: Driver, kind: type[ReadStream], fields: dict[str, Any]) -> None:
    task = await ff.running()
    error = await unanswered(
        ff, kind(execution_id=task.execution_id, attempt_index=0, **fields), "invalid_input"
    )
    assert error.text == (
        "count_limit must be >= 1" if fields["count"] == 0 else "count_limit_exceeds_hard_cap"
    )


@pytest.mark.parametrize(
    ("cursor", "reason"),
    [
        ("", "Empty"),
        ("-", "BareMarkerRejected"),
        ("+", "BareMarkerRejected"),
        ("1-2-3", "Malformed"),
        ("x", "Malformed"),
    ],
)
@pytest.mark.parametrize("side", ["from_", "to"])
async def test_cursors_are_checked(ff: Driver, side: str, cursor: str, reason: str) -> None:
    task = await ff.running()
    given: dict[str, Any] = {side: cursor}
    question = ReadStream(execution_id=task.execution_id, attempt_index=0, **given)
    assert (await unanswered(ff, question, "invalid_input")).details == (reason,)


@pytest.mark.parametrize("cursor", ["start", "end", "", "-"])
async def test_a_tail_needs_a_concrete_cursor(ff: Driver, cursor: str) -> None:
    task = await ff.running()
    question = TailStream(execution_id=task.execution_id, attempt_index=0, after=cursor)
    assert (await unanswered(ff, question, "invalid_input")).field == "after"


async def test_best_effort_frames_can_be_left_out(ff: Driver) -> None:
    task = await ff.running()
    for number, mode in enumerate(("durable", "best_effort", "durable", "best_effort", "durable"), 1):
        await append(ff, task, *numbered(number, number), mode=mode, ttl_ms=1_000)
    assert payloads(await read(ff, task, exclude_best_effort=True)) == [b"1", b"3", b"5"]
    assert payloads(await read(ff, task, count=2, exclude_best_effort=True)) == [b"1"]
    assert payloads(await tail(ff, task, count=4, exclude_best_effort=True)) == [b"1", b"3"]
