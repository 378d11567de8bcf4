"""The handle of a run: how it ends, where it stands, why it does not go on."""

from __future__ import annotations

import asyncio
import logging
import pickle
import re

import pytest

from flowfabric import Context
from flowfabric.app import (
    NothingWaits,
    ResultExpired,
    Run,
    TaskCancelled,
    TaskExpired,
    TaskFailed,
)
from flowfabric.engine.timers import Timers
from flowfabric.errors import InvalidToken
from flowfabric.model.errors import Conflict, InvalidInput, NotFound
from flowfabric.model.ids import spread
from flowfabric.model.operations.create import CreateExecution
from support.driver import new_uuid
from support.face import Face


async def test_waiting_for_a_result_ends_when_it_is_there(face: Face) -> None:
    app = face.app()

    @app.task
    def answer() -> int:
        return 42

    run = await app.submit(answer)
    waiting = asyncio.create_task(run.result(timeout="30s"))
    await face.work(app)
    assert await waiting == 42


async def test_run_is_found_by_its_id_and_its_type_by_its_task(face: Face) -> None:
    app = face.app()

    @app.task
    def pair() -> tuple[int, int]:
        return 1, 2

    run = await app.submit(pair)
    await face.work(app)
    assert await app.run(run.id).result() == [1, 2]
    assert await app.run(run.id, pair).result() == (1, 2)
    assert app.run(run.id) == run


@pytest.mark.parametrize("key", [None, "k"])  # a key decides the partition
async def test_run_is_found_by_its_uuid_and_the_beginning_of_it(face: Face, key: str | None) -> None:
    app = face.app()

    @app.task
    def one() -> int:
        return 1

    made = await app.options(key=key).submit(one)
    await face.work(app)
    uuid = made.id.partition("}:")[2]
    for text in (uuid, uuid[:4], uuid[:12].upper(), uuid.replace("-", "")):
        run = app.run(text, one)
        known = {run}
        assert (run.id, await run.result(), run.id) == (text, 1, made.id)
        assert (run, run in known) == (made, True)
        for ask in (Run.status, Run.explain, Run.history):
            assert await ask(app.run(text))
        assert [item async for item in app.run(text).stream()]
        with pytest.raises(Conflict):
            await app.run(text).cancel()
    await app.run(uuid[:8]).replay()
    assert (await app.run(uuid[:8]).status()).state == "waiting"


async def test_an_id_that_stands_for_none_or_several_is_refused(face: Face) -> None:
    app = face.app()
    made = [spread(f"abcd000{n}-0000-4000-8000-{'0' * 12}", face.store.partitions) for n in "0123456789ab"]
    for execution_id in made:
        await face.store.apply(CreateExecution(execution_id=execution_id, execution_kind="x"))
    with pytest.raises(NotFound, match="begins with abce"):
        await app.run("abce").status()
    with pytest.raises(InvalidInput, match=re.escape(f"several executions: {', '.join(made[:10])}, …")):
        await app.run("abcd").status()
    for text in ("", "abc", "wxyz", f"{new_uuid()}0"):
        with pytest.raises(InvalidInput, match="is no id of an execution"):
            await app.run(text).status()


async def test_failure_carries_reason_category_and_traceback(face: Face) -> None:
    app = face.app()

    @app.task
    def broken() -> None:
        raise ValueError("no such customer")

    run = await app.submit(broken)
    await face.work(app)
    with pytest.raises(TaskFailed, match="failed: no such customer") as failed:
        await run.result()
    assert (failed.value.reason, failed.value.category) == ("no such customer", "error")
    assert 'raise ValueError("no such customer")' in failed.value.detail
    assert failed.value.__notes__ == [failed.value.detail]
    again = pickle.loads(pickle.dumps(failed.value))
    assert (str(again), again.detail) == (str(failed.value), failed.value.detail)


async def test_cancelled_run_says_so(face: Face) -> None:
    app = face.app()
    app.task(name="job")(lambda: None)
    run = await app.submit("job")
    await run.cancel("changed my mind")
    with pytest.raises(TaskCancelled, match="was cancelled: changed my mind"):
        await run.result()
    assert (await run.status()).state == "cancelled"
    with pytest.raises(Conflict, match=r"nothing to cancel: the run has ended \(cancelled\)"):
        await run.cancel("once more")


async def test_expired_run_says_so(face: Face) -> None:
    app = face.app()
    app.task(name="job", deadline="1m")(lambda: None)
    run = await app.submit("job")
    face.clock.advance(60_000)
    await Timers(face.engine).fire_due()
    with pytest.raises(TaskExpired, match="expired"):
        await run.result()


async def test_result_is_gone_after_its_retention(face: Face) -> None:
    app = face.app()
    app.task(name="job", retention="1h")(lambda: 1)
    run = await app.submit("job")
    await face.work(app)
    assert await run.result() == 1
    face.clock.advance(3_600_000)
    await Timers(face.engine).fire_due()
    with pytest.raises(ResultExpired, match="its retention is over"):
        await run.result()


async def test_unknown_id_says_that_nothing_is_kept(face: Face) -> None:
    with pytest.raises(ResultExpired, match="or there never was one") as gone:
        await face.app().run(spread(new_uuid(), face.store.partitions)).result()
    assert isinstance(gone.value, NotFound)
    assert pickle.loads(pickle.dumps(gone.value)) == gone.value


async def test_result_of_another_type_is_refused_with_the_way_out(face: Face) -> None:
    app = face.app()
    other = face.app()

    @app.task
    def job() -> int:
        return 1

    @other.task(name="job")
    def text() -> str:
        return "text"

    run = await app.submit(job)
    await face.work(other)
    with pytest.raises(InvalidInput, match=r"Expected `int`, got `str`; read it untyped: app\.run"):
        await run.result()


async def test_whoever_waits_is_told_why_after_a_while(face: Face, caplog: pytest.LogCaptureFixture) -> None:
    app = face.app(patience="10ms")
    app.task(name="job", capabilities=["gpu"])(lambda: None)
    run = await app.submit("job")
    with caplog.at_level(logging.WARNING, "flowfabric.app"), pytest.raises(TimeoutError) as late:
        await run.result(timeout="100ms")
    told = [each.getMessage() for each in caplog.records if each.name == "flowfabric.app"]
    assert len(told) == 1, "the same reason is told once"
    assert "is waiting: " in told[0]
    assert str(await run.explain()) in told[0]
    assert str(await run.explain()) in str(late.value)


async def test_nobody_is_warned_of_a_run_that_runs(face: Face, caplog: pytest.LogCaptureFixture) -> None:
    app = face.app(patience="1ms")
    app.task(name="job")(lambda: None)
    run = await app.submit("job")
    await face.claim()
    with pytest.raises(TimeoutError, match="is active"):
        await run.result(timeout="50ms")
    assert not [each for each in caplog.records if each.name == "flowfabric.app"]


async def test_status_history_and_explanation(face: Face) -> None:
    app = face.app()
    app.task(name="job", tags={"team": "a"}, priority=3)(lambda: None)
    run = await app.submit("job")
    before = await run.status()
    assert (before.kind, before.state, before.tags, before.priority) == ("job", "waiting", {"team": "a"}, 3)
    assert (before.attempt, before.progress, before.ended) == (-1, None, False)
    why = await run.explain()
    assert why.runnable
    assert [each.reason for each in why.because] == ["waiting_for_worker"]
    await face.work(app)
    after = await run.status()
    assert (after.state, after.attempt, after.worker, after.ended) == ("completed", 0, "hand-1", True)
    assert "it has ended: completed" in str(await run.explain())
    assert [event.event for event in await run.history()] == ["created", "claimed", "completed"]


async def test_signal_reaches_what_waits_for_it(face: Face) -> None:
    app = face.app()
    app.task(name="job")(lambda: None)
    run = await app.submit("job")
    with pytest.raises(NothingWaits, match="waits for nothing yet; say within="):
        await run.signal("go")
    task = await face.claim()
    await face.suspend(task, "approve", "reject")
    with pytest.raises(NothingWaits, match="the run waits for approve, reject, not for 'go'"):
        await run.signal("go")
    await run.approve({"note": "fine"}, by="ada")
    (signal,) = (await face.claim()).resume_signals
    assert (signal.signal_name, signal.source_identity) == ("approve", "ada")
    assert (signal.payload, signal.payload_encoding) == (b'{"note":"fine"}', "json")


async def test_signal_waits_for_the_run_to_wait(face: Face) -> None:
    app = face.app()
    app.task(name="job")(lambda: None)
    run = await app.submit("job")
    sending = asyncio.create_task(run.reject(by="ada", within="30s"))
    await face.suspend(await face.claim(), "approve", "reject")
    await sending
    (signal,) = (await face.claim()).resume_signals
    assert signal.signal_name == "reject"


async def test_signal_to_a_run_that_sleeps_is_refused(face: Face) -> None:
    app = face.app()

    @app.task
    async def job(ctx: Context) -> str:
        await ctx.sleep("1d")
        return (await ctx.wait_for_signal("approve")).name

    run = await app.submit(job)
    async with app.worker(engine=False):
        async with face.store.subscribe([f"execution:{run.id}"]) as woken:
            while (await run.status()).state != "suspended":
                await woken.wait(5)
        for signal in (run.approve(), run.signal("anything")):
            with pytest.raises(NothingWaits, match="the run sleeps"):
                await signal
        assert "signal" not in [event.event for event in await run.history()]


async def test_nobody_waits_for_a_run_that_has_ended(face: Face) -> None:
    app = face.app()
    app.task(name="job")(lambda: None)
    run = await app.submit("job")
    sending = asyncio.create_task(run.approve(within="1h"))
    await face.work(app)
    for signal in (sending, run.approve(within="1h")):
        with pytest.raises(NothingWaits, match="the run has ended: completed"):
            await asyncio.wait_for(signal, 30)


async def test_token_opens_its_waitpoint_and_nothing_else(face: Face) -> None:
    app = face.app()
    app.task(name="job")(lambda: None)
    run = await app.submit("job")
    opened = (await face.suspend(await face.claim(), "go")).waitpoint
    token = opened.waitpoint_token
    with pytest.raises(InvalidToken):
        await run.signal(
            "go", waitpoint=opened.waitpoint_id, token=token[:-1] + ("1" if token[-1] == "0" else "0")
        )
    await run.signal("go", waitpoint=opened.waitpoint_id, token=token)
    assert (await run.status()).state == "waiting"


async def test_replay_runs_it_once_more(face: Face) -> None:
    app = face.app()
    results = iter(["first", "second"])
    app.task(name="job")(lambda: next(results))
    run = await app.submit("job")
    await face.work(app)
    assert await run.result() == "first"
    await run.replay(reason="again")
    assert (await run.status()).state == "waiting"
    await face.work(app)
    assert await run.result() == "second"
