"""`ff worker` and `ff dev`, as processes."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.commands import Ff
from support.serving import Backend
from support.working import Place

APP = """
from flowfabric import Context, FlowFabric

app = FlowFabric()

@app.task
async def greet(ctx: Context, name: str) -> str:
    await ctx.emit("log", f"{name} is greeted")
    return f"HELLO, {name}"

@app.task
async def hang(ctx: Context) -> str:
    if ctx.attempt == 0:
        await ctx.emit("log", "hanging")
        await ctx.cancelled.wait()
    return "recovered"
"""


@asynccontextmanager
async def running(folder: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start `ff` where an app lies, and be sure that it ends."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FF_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "flowfabric.cli", *arguments, cwd=folder, env=environ,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def until(process: asyncio.subprocess.Process, text: str) -> str:
    """Read what it says up to a line."""
    assert process.stdout is not None
    said = ""
    while line := (await process.stdout.readline()).decode():
        said += line
        if re.search(text, line):
            return line
    raise AssertionError(f"{text!r} was not said: {said}")


async def test_a_worker_runs_an_app_until_it_is_told_to_stop(place: Place, ff: Ff, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP, "utf-8")
    async with running(tmp_path, "worker", "shop", "--store", place.url, "--name", "painter") as worker:
        assert await place.result(await place.submit("greet", {"name": "Ada"})) == "HELLO, Ada"
        assert [each["worker_id"] for each in await ff.json("workers")] == ["painter"]
        worker.send_signal(signal.SIGTERM)
        assert await worker.wait() == 0


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("nowhere:app", "there is no module nowhere"),
        ("shop:nothing", "shop has no FlowFabric called nothing"),
    ],
)
async def test_an_app_that_is_not_there_is_explained(tmp_path: Path, target: str, text: str) -> None:
    (tmp_path / "shop.py").write_text(APP, "utf-8")
    async with running(tmp_path, "worker", target) as worker:
        out, _ = await worker.communicate()
    assert worker.returncode == 2
    assert out.decode().startswith(f"ff: {text}")


@pytest.mark.usefixtures("interruptible")
async def test_dev_serves_works_reloads_and_survives_a_kill(backend: Backend, tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "shop.py").write_text(APP, "utf-8")
    async with running(folder, "dev", "shop:app", *backend.flags, "--listen", "127.0.0.1:0") as dev:
        assert dev.stdin is not None
        address = (await until(dev, "serves")).split()[0]
        ff = Ff(address)
        assert (await ff("submit", "greet", "name=Ada", "--wait")).json == "HELLO, Ada"
        await until(dev, "» Ada is greeted")
        await until(dev, "completed")
        (folder / "shop.py").write_text(APP.replace("HELLO", "BYE"), "utf-8")
        await until(dev, "starts anew: shop.py has changed")
        hanging = (await ff("submit", "hang")).out.strip()
        await until(dev, "» hanging")
        assert (await ff("submit", "greet", "name=Ada", "--wait")).json == "BYE, Ada"
        dev.stdin.write(b"k\n")
        await until(dev, "killed the worker")
        await until(dev, f"{hanging[-8:]}.* expired")
        await until(dev, f"{hanging[-8:]}.* reclaimed by")
        assert (await ff.json("inspect", hanging))["public_state"] in {"active", "completed"}
        await until(dev, f"{hanging[-8:]}.* completed")
        dev.send_signal(signal.SIGINT)
        assert await dev.wait() == 0
