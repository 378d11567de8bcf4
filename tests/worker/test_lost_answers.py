"""Every answer of the store is lost once: what was asked is asked again, and done once."""

from __future__ import annotations

from flowfabric.model.errors import FlowFabricError, Unreachable
from flowfabric.model.operations.stream import ReadStream
from flowfabric.worker import Layer, Runtime, WorkerSettings
from support.working import Context, Place, table

SETTINGS = WorkerSettings(lease_ttl="20s")
AT_ONCE = {"retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}}}


class Losing(Layer):
    """The first answer to each kind of call is lost when it is there: the store has done what it was asked."""

    def __init__(self) -> None:
        self.lost: set[str] = set()

    def after(self, method: str, seconds: float, error: FlowFabricError | None) -> None:
        if error is None and method not in self.lost:
            self.lost.add(method)
            raise Unreachable


async def test_a_run_whose_answers_are_lost_is_done_once(place: Place) -> None:
    calls: list[str] = []

    async def note(word: str) -> str:
        calls.append(word)
        return word

    async def work(ctx: Context) -> list[str]:
        first = await ctx.step("one", note, "one")
        await ctx.emit("token", "a")
        await ctx.emit("token", "a")
        await ctx.flush()
        await ctx.emit("token", "a")
        await ctx.progress(50)
        waitpoint = await ctx.create_waitpoint("approval")
        assert waitpoint.token
        await ctx.sleep("10ms")
        if ctx.attempt == 0:
            raise ValueError("once")
        return [first, await ctx.step("two", note, "two")]

    losing = Losing()
    async with Runtime(place.store, table(work), SETTINGS, url=place.url, layers=(losing,)):
        id_ = await place.submit("work", policy=AT_ONCE)
        assert await place.result(id_) == ["one", "two"]
    assert calls == ["one", "two"]
    wanted = {
        "claim",
        "put_step",
        "append_frames",
        "update_progress",
        "create_waitpoint",
        "suspend",
        "fail",
        "complete",
    }
    assert wanted <= losing.lost
    events = await place.events(id_)
    assert (events.count("completed"), events.count("suspended"), len(await place.attempts(id_))) == (1, 1, 2)
    # Before the wait and after it, in the first attempt; the second passes the wait at once.
    counts = []
    for attempt in (0, 1):
        page = await place.store.read(ReadStream(execution_id=id_, attempt_index=attempt))
        counts.append(len(page.frames))
    assert counts == [6, 3]
