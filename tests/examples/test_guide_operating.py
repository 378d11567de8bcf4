"""Every command that docs/guides/operating.md shows is run, on a store that has something to show."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from flowfabric import Context, FlowFabric
from flowfabric.worker import CircuitBreaker, Layer, Metrics
from support.until import until

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "operating.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL) for line in block.splitlines()]


async def shell(command: str, store: Path, run: str) -> tuple[int, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("FF_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{ours['PATH']}"
    process = await asyncio.create_subprocess_shell(
        command,
        env={**ours, "PATH": path, "FF_STORE": str(store), "RUN": run},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    shown, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, shown.decode()


@pytest.mark.timeout(180)
async def test_the_commands_do_what_they_say(app: FlowFabric, tmp_path: Path) -> None:
    asked: list[str] = []

    @app.task
    async def order(ctx: Context) -> None:
        await ctx.step("charge", lambda: 1)
        asked.append(ctx.execution_id)
        await ctx.wait_for_signal("packed")

    run = await app.submit(order)
    async with app.worker():
        await until(lambda: asked)
    shown: dict[str, str] = {}
    for command in COMMANDS:
        code, shown[command] = await shell(command, tmp_path / "work.db", run.id)
        assert code == 0, f"{command}\n{shown[command]}"
        if command.startswith("ff cancel"):
            assert (await run.status()).state == "cancelled"
    assert "packed" in shown["ff waitpoints"]
    assert "packed" in shown['ff explain "$RUN"']
    assert "charge" in shown['ff inspect "$RUN"']
    assert (await run.status()).state == "waiting"  # it was replayed


async def test_logs_carry_ids(app: FlowFabric, caplog: pytest.LogCaptureFixture) -> None:
    @app.task
    async def talk(ctx: Context) -> str:
        ctx.log.warning("hello")
        return ctx.execution_id

    with caplog.at_level(logging.WARNING, "flowfabric.task.talk"):
        async with app.worker():
            run = await app.submit(talk)
            await run.result(timeout="30s")
    (record,) = (each for each in caplog.records if each.name == "flowfabric.task.talk")
    assert (record.__dict__["execution_id"], record.__dict__["attempt"]) == (run.id, 0)
    assert record.__dict__["kind"] == "talk"


async def test_layers(tmp_path: Path) -> None:
    seconds: dict[str, float] = {}
    calls: list[tuple[str, str]] = []

    class Timed(Layer):
        async def handle(self, kind: str, execution_id: str, run: Callable[[], Awaitable[Any]]) -> Any:
            began = time.monotonic()
            try:
                return await run()
            finally:
                seconds[kind] = time.monotonic() - began

    class Sink:
        def record(self, method: str, seconds: float, category: str) -> None:
            calls.append((method, category))

    store, sink = str(tmp_path / "work.db"), Sink()
    app = FlowFabric(store, layers=[Timed(), Metrics(sink), CircuitBreaker(threshold=5)])

    @app.task
    async def add(x: int, y: int) -> int:
        return x + y

    class Further(Layer):
        async def handle(self, kind: str, execution_id: str, run: Callable[[], Awaitable[Any]]) -> Any:
            return await run() + 1

    async with app, app.worker(layers=[Further()]):
        assert await (await app.submit(add, 1, 2)).result(timeout="30s") == 4
    assert seconds.keys() == {"add"}
    assert {("claim", ""), ("complete", "")} <= {*calls}
