"""Frames that may be forgotten: how many are kept, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.operations.claim import Task
from support.driver import Driver
from support.frames import append, numbered, patch, payloads, read, stream_record, tail

TTL = 5_000


async def live(ff: Driver, task: Task, first: int, last: int, gap: int = 0, **fields: Any) -> None:
    """Append numbered frames one by one, `gap` milliseconds apart."""
    for number in range(first, last + 1):
        await append(ff, task, *numbered(number, number), mode="best_effort", **{"ttl_ms": TTL} | fields)
        ff.clock.advance(gap)


async def test_how_many_are_kept_follows_the_rate(ff: Driver) -> None:
    task = await ff.running()
    await live(ff, task, 1, 1)
    stream = await stream_record(ff, task)
    assert (stream.rate_hz, stream.maxlen_applied_last) == (6.4, 64)
    ff.clock.advance(11)
    await live(ff, task, 2, 2)
    stream = await stream_record(ff, task)
    assert (round(stream.rate_hz, 2), stream.maxlen_applied_last) == (23.30, 234)


async def test_slow_frames_are_kept_down_to_the_floor(ff: Driver) -> None:
    task = await ff.running()
    await live(ff, task, 1, 70, gap=200)
    assert payloads(await read(ff, task)) == numbered(7, 70)


async def test_fast_frames_are_kept_up_to_the_ceiling(ff: Driver) -> None:
    task = await ff.running()
    await live(ff, task, 1, 20, gap=1, maxlen_floor=2, maxlen_ceiling=9)
    assert payloads(await read(ff, task)) == numbered(12, 20)


@pytest.mark.parametrize(
    ("bounds", "applied"),
    [
        ({"maxlen_floor": 3, "maxlen_ceiling": 1}, 3),
        ({"maxlen_floor": -1}, 64),
        ({"maxlen_floor": 7}, 7),
        ({"maxlen_ceiling": -5}, 64),
        ({"ema_alpha": 2.0}, 64),
    ],
)
async def test_bounds_that_make_no_sense_are_replaced(
    ff: Driver, bounds: dict[str, Any], applied: int
) -> None:
    task = await ff.running()
    await live(ff, task, 1, 1, **bounds)
    assert (await stream_record(ff, task)).maxlen_applied_last == applied


@pytest.mark.parametrize(("alpha", "kept"), [(0.5, 487), (2.0, 234), (0.0, 234), (1.0, 910)])
async def test_the_weight_of_the_newest_frame(ff: Driver, alpha: float, kept: int) -> None:
    task = await ff.running()
    await live(ff, task, 1, 1)
    ff.clock.advance(11)
    await live(ff, task, 2, 2, ema_alpha=alpha)
    assert (await stream_record(ff, task)).maxlen_applied_last == kept


async def test_they_are_forgotten_after_twice_their_time(ff: Driver) -> None:
    task = await ff.running()
    await live(ff, task, 1, 1)
    ff.clock.advance(2 * TTL - 1)
    assert payloads(await read(ff, task)) == numbered(1, 1)
    await live(ff, task, 2, 2)
    ff.clock.advance(2 * TTL - 1)
    assert payloads(await read(ff, task)) == numbered(1, 2)
    ff.clock.advance(2)
    assert payloads(await read(ff, task)) == []
    assert payloads(await tail(ff, task)) == []


async def test_after_forgetting_the_stream_goes_on(ff: Driver) -> None:
    task = await ff.running()
    (one,) = await append(ff, task, b"1", mode="best_effort", ttl_ms=100)
    ff.clock.advance(500)
    await append(ff, task, b"2", mode="best_effort", ttl_ms=100)
    assert payloads(await read(ff, task)) == [b"2"]
    assert payloads(await tail(ff, task, one.entry_id)) == [b"2"]


@pytest.mark.parametrize("mode", ["durable", "summary"])
async def test_one_lasting_frame_makes_the_stream_last(ff: Driver, mode: str) -> None:
    task = await ff.running()
    await live(ff, task, 1, 1)
    assert not (await stream_record(ff, task)).has_durable_frame
    if mode == "summary":
        await ff.store.apply(patch(task, b"{}"))
    else:
        await append(ff, task, b"{}")
    await live(ff, task, 3, 3)
    ff.clock.advance(2 * TTL + 1)
    assert payloads(await read(ff, task)) == [b"1", b"{}", b"3"]
    assert (await stream_record(ff, task)).has_durable_frame


async def test_lasting_frames_share_the_room(ff: Driver) -> None:
    task = await ff.running()
    await append(ff, task, b"lasting")
    await live(ff, task, 1, 5, gap=4_000, maxlen_floor=2, maxlen_ceiling=2)
    assert payloads(await read(ff, task)) == numbered(4, 5)
