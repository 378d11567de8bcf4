"""What docs/guides/tasks.md says and shows."""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flowfabric import Context, FlowFabric, FlowFabricError, SyncContext, provided
from flowfabric.testing import Lab
from support.shell import blocks, shell


@dataclass
class Order:
    item: str
    count: int = 1


class Warehouse:
    """Stands for a client that is opened once and shared."""

    opened = 0

    async def stock(self, item: str) -> int:
        return len(item)

    async def aclose(self) -> None:
        Warehouse.opened -= 1


async def connect() -> Warehouse:
    Warehouse.opened += 1
    return Warehouse()


def heavy(number: int) -> int:
    return os.getpid()


async def test_arguments_and_results_have_types(app: FlowFabric) -> None:
    @app.task
    async def price(order: Order, currency: str = "EUR") -> str:
        return f"{order.count * 20} {currency}"

    async with app.worker():
        run = await app.submit(price, Order("lamp", 2), currency="CHF")
        assert await run.result(timeout="30s") == "40 CHF"
        with pytest.raises(FlowFabricError, match="count"):
            await app.submit("price", order={"item": "lamp", "count": "two"})


async def test_a_terminal_submits_by_name(app: FlowFabric, tmp_path: Path) -> None:
    @app.task
    async def price(order: Order, currency: str = "EUR") -> str:
        return f"{order.count * 20} {currency}"

    (script,) = blocks("docs/guides/tasks.md")
    async with app.worker():
        shown = await asyncio.to_thread(shell, script, tmp_path, {}, FF_STORE=str(tmp_path / "work.db"))
    assert shown == '"40 CHF"\n'


async def test_bytes_stay_bytes(app: FlowFabric) -> None:
    @app.task
    async def thumbnail(image: bytes) -> bytes:
        return image[:4]

    async with app.worker():
        assert (
            await (await app.submit(thumbnail, b"\x00\xff\x00\xff\x00")).result(timeout="30s")
            == b"\x00\xff\x00\xff"
        )


async def test_a_codec_of_ones_own(tmp_path: Path) -> None:
    class Pickled:
        name = "pickle"

        def encode(self, value: Any) -> bytes:
            return pickle.dumps(value)

        def decode(self, data: bytes, type_: Any) -> Any:
            return pickle.loads(data)

    async with FlowFabric(str(tmp_path / "work.db")) as app:

        @app.task(codec=Pickled())
        async def invert(number: complex) -> complex:
            return 1 / number

        async with app.worker():
            run = await app.submit(invert, 2j)
            assert await run.result(timeout="30s") == -0.5j
            assert await app.run(run.id, invert).result() == -0.5j


async def test_a_key_lets_a_run_exist_once(app: FlowFabric) -> None:
    @app.task(lane="mail", retries=3, tags={"team": "shop"})
    async def remind(address: str) -> None: ...

    run = await app.options(key="invoice-17", delay="1d", priority=5).submit(remind, "ada@example.org")
    again = await app.options(key="invoice-17").submit(remind, "ada@example.org")
    assert (again == run, again.duplicate) == (True, True)
    status = await run.status()
    assert (status.lane, status.priority, status.tags) == ("mail", 5, {"team": "shop"})


async def test_many_at_once(app: FlowFabric) -> None:
    @app.task
    async def square(number: int) -> int:
        return number**2

    async with app.worker():
        runs = await app.submit_many(app.call(square, number) for number in range(100))
        results = [await run.result() for run in runs]
    assert results == [number**2 for number in range(100)]


async def test_what_handlers_need(app: FlowFabric) -> None:
    @app.provide(Warehouse)
    async def warehouse() -> AsyncIterator[Warehouse]:
        async with aclosing(await connect()) as opened:
            yield opened

    @app.task
    async def available(item: str, *, warehouse: Warehouse = provided) -> bool:
        return await warehouse.stock(item) > 0

    async with app.worker():
        runs = [await app.submit(available, item) for item in ("lamp", "book")]
        assert [await run.result(timeout="30s") for run in runs] == [True, True]
        assert Warehouse.opened == 1
    assert Warehouse.opened == 0
    assert await available("", warehouse=Warehouse()) is False


async def test_hooks(app: FlowFabric) -> None:
    said: list[str] = []

    @app.on_start
    def begin() -> None:
        said.append("begin")

    @app.on_stop
    async def end() -> None:
        said.append("end")

    app.task(name="nothing")(lambda: None)
    async with app.worker():
        assert said == ["begin"]
    assert said == ["begin", "end"]


async def test_where_a_handler_runs(app: FlowFabric) -> None:
    app.task(executor="process")(heavy)

    @app.task
    def report(ctx: SyncContext, month: str) -> int:
        rows = ctx.step("collect", lambda: [month] * 3)
        return len(rows)

    async with app.worker():
        assert await (await app.submit(heavy, 1)).result(timeout="40s") != os.getpid()
        assert await (await app.submit(report, "May")).result(timeout="30s") == 3


async def test_a_child_is_submitted_once() -> None:
    app = FlowFabric()
    asked: list[str] = []

    @app.task
    async def pack(item: str) -> str:
        asked.append(item)
        return f"{item} packed"

    @app.task
    async def order(ctx: Context, item: str) -> str:
        child = await ctx.submit(pack, item)
        await ctx.wait_for_signal("paid")
        return await child.result()

    async with Lab(app) as lab:
        run = await lab.submit(order, "lamp")
        await lab.signal(run, "paid")
        assert await lab.result(run) == "lamp packed"
    assert asked == ["lamp"]


async def test_a_fence_grows() -> None:
    app = FlowFabric()
    fences: list[str] = []

    @app.task
    async def pay(ctx: Context, amount: int) -> None:
        fences.append(ctx.fence)
        await ctx.step("once", lambda: None)

    async with Lab(app) as lab:
        lab.crash_after("once")
        run = await lab.submit(pay, 20)
        await lab.assert_state(run, "completed")
    assert fences == [f"{run.id}:1", f"{run.id}:2"]


def test_code_that_is_not_async(tmp_path: Path) -> None:
    app = FlowFabric(str(tmp_path / "work.db"))

    @app.task
    def price(item: str) -> int:
        return len(item) * 5

    async def work_once() -> None:
        async with app.worker():
            await app.run(run.id).result(timeout="30s")

    run = app.sync.submit(price, "lamp")
    asyncio.run(work_once())
    assert app.sync.run(run.id, price).result(timeout="10s") == 20
    app.sync.close()
