"""What docs/guides/waiting-for-people.md says and shows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from flowfabric import Context, FlowFabric, FlowFabricError, NothingWaits, WaitTimeout
from flowfabric.model.operations.suspend_waitpoint import ListWaitpoints
from flowfabric.testing import Lab
from support.shell import blocks, shell
from support.until import until


@dataclass
class Decision:
    limit: int
    note: str = ""


async def test_an_answer_carries_a_payload(app: FlowFabric) -> None:
    @app.task
    async def credit(ctx: Context, customer: str) -> str:
        try:
            answer = await ctx.wait_for_signal("approve", "reject", timeout="2d")
        except WaitTimeout:
            return "nobody answered"
        if answer.name == "reject":
            return f"no, says {answer.source}"
        decision = answer.read(Decision)
        return f"{customer} gets {decision.limit}"

    async with app.worker():
        run = await app.submit(credit, "ada")
        await run.approve({"limit": 500}, by="bob", within="10s")
        assert await run.result(timeout="30s") == "ada gets 500"

        run = await app.submit(credit, "eve")
        await run.reject(by="bob", within="10s")
        assert await run.result(timeout="30s") == "no, says bob"


async def test_nobody_answers(app: FlowFabric) -> None:
    @app.task
    async def credit(ctx: Context) -> str:
        try:
            await ctx.wait_for_signal("approve", timeout="100ms")
        except WaitTimeout:
            return "nobody answered"
        return "approved"

    async with app.worker():
        run = await app.submit(credit)
        assert await run.result(timeout="30s") == "nobody answered"


async def test_a_signal_that_nobody_waits_for_is_refused(app: FlowFabric) -> None:
    @app.task
    async def pick(ctx: Context) -> str:
        return (await ctx.wait_for_signal("red", "blue")).name

    run = await app.submit(pick)
    with pytest.raises(NothingWaits, match="within"):
        await run.signal("red")
    async with app.worker():
        with pytest.raises(NothingWaits, match="red"):
            await run.signal("green", within="2s")
        await run.signal("blue")
        assert await run.result(timeout="30s") == "blue"


async def test_several_signals(app: FlowFabric) -> None:
    @app.task
    async def launch(ctx: Context) -> list[str]:
        ready = await ctx.wait_for_signal("fuel", "weather", "crew", count="all", timeout="1d")
        votes = await ctx.wait_for_signal("go", count=2, distinct=True)
        return [each.name for each in ready] + [each.source for each in votes]

    async with app.worker():
        run = await app.submit(launch)
        for name in ("crew", "fuel", "weather"):
            await run.signal(name, within="10s")
        for person in ("ada", "ada", "bob"):
            await run.signal("go", by=person, within="10s")
        said = await run.result(timeout="30s")
    assert (sorted(said[:3]), sorted(said[3:])) == (["crew", "fuel", "weather"], ["ada", "bob"])


async def test_a_token_lets_an_outsider_answer(app: FlowFabric) -> None:
    mails: list[tuple[str, str]] = []

    def send_mail(waitpoint: str, token: str) -> None:
        mails.append((waitpoint, token))

    @app.task
    async def sign(ctx: Context, contract: str) -> str:
        waitpoint = await ctx.create_waitpoint("signature", expires="7d")
        await ctx.step("mail", send_mail, waitpoint.id, waitpoint.token)
        answer = await ctx.wait_for_signal("signed", waitpoint=waitpoint, timeout="7d")
        return f"{contract} signed by {answer.source}"

    async with app.worker():
        run = await app.submit(sign, "lease")
        await until(lambda: mails)
        ((waitpoint, token),) = mails
        with pytest.raises(FlowFabricError):
            await run.signal("signed", waitpoint=waitpoint, token=token[:-4] + "0000", by="eve")
        await run.signal("signed", waitpoint=waitpoint, token=token, by="ada")
        assert await run.result(timeout="30s") == "lease signed by ada"
    assert len(mails) == 1


async def test_sleep_holds_no_worker(app: FlowFabric) -> None:
    @app.task
    async def remind(ctx: Context, who: str) -> str:
        await ctx.sleep("100ms")
        return await ctx.step("mail", lambda: f"mail to {who}")

    async with app.worker(concurrency=1):
        runs = [await app.submit(remind, str(number)) for number in range(3)]
        assert [await run.result(timeout="30s") for run in runs] == ["mail to 0", "mail to 1", "mail to 2"]


async def test_a_page_asks() -> None:
    app, mails = FlowFabric(), list[str]()
    send_mail = mails.append

    @app.task
    async def refund(ctx: Context) -> str:
        question = {"amount": 40}
        waitpoint = await ctx.create_waitpoint("refund", "7d", message="Refund this order?", details=question)
        link = await ctx.approval_link(waitpoint, "approve", "reject", expires="7d", to="ann@example.com")
        await ctx.step("mail", send_mail, link)
        answer = await ctx.wait_for_signal("approve", "reject", waitpoint=waitpoint, timeout="7d")
        return f"{answer.name} by {answer.source}: {answer.payload['comment']}"

    async with Lab(app) as lab:
        run = await lab.submit(refund)
        await lab.settle()
        (waitpoint,) = (await lab.store.read(ListWaitpoints(execution_id=run.id))).waitpoints
        assert (waitpoint.message, waitpoint.details) == ("Refund this order?", '{"amount":40}')
        await lab.visit(mails[0], "reject", comment="too late")
        assert await lab.result(run) == "reject by ann@example.com: too late"


async def test_links_need_a_server(app: FlowFabric) -> None:
    @app.task
    async def ask(ctx: Context) -> str:
        waitpoint = await ctx.create_waitpoint("approval")
        return await ctx.approval_link(waitpoint, "approve")

    async with app.worker():
        run = await app.submit(ask)
        with pytest.raises(Exception, match="http://"):
            await run.result(timeout="30s")


async def test_answering_from_a_terminal(app: FlowFabric, tmp_path: Path) -> None:
    @app.task
    async def credit(ctx: Context, customer: str) -> str:
        answer = await ctx.wait_for_signal("approve", "reject", timeout="2d")
        return f"{customer} gets {answer.payload['limit']}, says {answer.source}"

    async with app.worker():
        run = await app.submit(credit, "ada")
        async with (await app._core.connection.get()).subscribe([f"execution:{run.id}"]) as woken:
            while (await run.status()).state != "suspended":
                await woken.wait(5)
        (script,) = blocks("docs/guides/waiting-for-people.md")
        store = str(tmp_path / "work.db")
        shown = await asyncio.to_thread(
            shell, script, tmp_path, {"ID": run.id.partition("}:")[2][:13]}, FF_STORE=store
        )
        assert "approve, reject" in shown
        assert await run.result(timeout="30s") == "ada gets 500, says bob"
