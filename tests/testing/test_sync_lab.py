"""The lab for tests that are not async, on each store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flowfabric import FlowFabric, SyncContext, TaskFailed, WaitTimeout
from flowfabric.testing import SyncLab
from pytest_flowfabric import Labs


def shop(file: str = "sqlite:////nowhere/at/all.db") -> FlowFabric:
    app = FlowFabric(file)

    @app.task(retries=1, backoff="1h")
    def order(ctx: SyncContext, item: str) -> str:
        paid = ctx.step("charge", lambda: f"{item} paid")
        ctx.emit("token", paid)
        try:
            answer = ctx.wait_for_signal("approve", "reject", timeout="3d")
        except WaitTimeout:
            return "nobody answered"
        return ctx.step("ship", lambda: f"{paid}, {answer.name} by {answer.source}")

    return app


def test_a_test_that_is_not_async(flowfabric_lab_per_store: Labs) -> None:
    app = shop()
    with flowfabric_lab_per_store.sync(app) as lab:
        lab.crash_after("charge")
        run = app.sync.submit("order", item="lamp")
        lab.assert_state(run, "suspended")
        lab.approve(run, by="ada")
        assert lab.result(run) == "lamp paid, approve by ada"
        lab.assert_steps(run, ["charge", "ship"])
        lab.assert_frames(run, ["lamp paid"], "token")  # what it emitted before its wait is superseded
        assert [frame.text for frame in lab.frames(run)] == ["lamp paid"]
        assert [step for step in lab.steps(run, waits=True) if step.startswith("wait:")]
        assert run.status().attempt == 1
    app.sync.close()


def test_time_and_people() -> None:
    app = shop()
    with SyncLab(app) as lab:
        late, refused, short = (app.sync.submit("order", item=item) for item in ("a", "b", "c"))
        lab.reject(refused, by="bob")
        assert lab.result(refused) == "b paid, reject by bob"
        lab.signal(short, "approve", by="eve")
        assert lab.result(short) == "c paid, approve by eve"
        before = lab.clock.now
        lab.expire(late)
        assert (lab.clock.now - before).days == 3
        assert lab.result(late) == "nobody answered"
        lab.clock.advance("2d")
        lab.assert_state(late, "gone")
    app.sync.close()


def test_handlers_that_do_not_return() -> None:
    app = FlowFabric("sqlite:////nowhere/at/all.db")

    @app.task(timeout="1m")
    async def stuck() -> None:
        await asyncio.Event().wait()

    with SyncLab(app) as lab:
        run = app.sync.submit(stuck)
        lab.begun(run)
        lab.clock.advance("1m")
        with pytest.raises(TaskFailed, match="timeout"):
            lab.result(run)
        again = app.sync.submit(stuck)
        lab.begun(again)
        lab.crash()
        app.sync.run(again.id).cancel("enough")
        lab.settle()
    app.sync.close()


def test_a_crash_that_must_happen_in_a_block() -> None:
    app = shop()
    with SyncLab(app) as lab:
        with pytest.raises(AssertionError, match="has not happened in its block"), lab.crash_after("ship"):
            pass
        lab.approve(app.sync.submit("order", item="lamp"))
    app.sync.close()


def test_what_goes_wrong_is_told_here() -> None:
    app = shop()
    for crash in (SyncLab.crash_before, SyncLab.crash_during):
        with pytest.raises(AssertionError, match="never happened"), SyncLab(app) as lab:
            crash(lab, "shpi")
    with pytest.raises(AssertionError, match="order is suspended, not completed"), SyncLab(app) as lab:
        lab.assert_state(app.sync.submit("order", item="lamp"), "completed")
    app.sync.close()


async def test_an_async_test_is_sent_elsewhere() -> None:
    with pytest.raises(RuntimeError, match="async with Lab"), SyncLab(shop()):
        pass


def test_the_app_has_its_own_store_again(tmp_path: Path) -> None:
    app = shop(str(tmp_path / "real.db"))
    with SyncLab(app) as lab:
        lab.approve(app.sync.submit("order", item="lamp"))
    assert not list(tmp_path.iterdir())
    assert app.sync.submit("order", item="lamp").status().state == "waiting"
    assert (tmp_path / "real.db").exists()
    app.sync.close()
