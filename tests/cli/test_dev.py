"""`ff worker` and `ff dev`, as processes; what a person sees of it is in test_make_dev."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from flowfabric.engine import tail_when_ready
from flowfabric.model.operations.stream import TailStream
from support.commands import Ff
from support.serving import Backend
from support.valkey import ValkeyServer
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

@app.task
async def nap(ctx: Context) -> None:
    await ctx.sleep("1h")
"""

FLAKY = """
@app.task(lane="slow", retries=1, backoff=0)
async def flaky(ctx: Context) -> str:
    if ctx.attempt == 0:
        raise ConnectionError("not this time")
    return "done"
"""


@asynccontextmanager
async def running(
    folder: Path,
    *arguments: str,
    stdin: int = asyncio.subprocess.PIPE,
    stderr: int = asyncio.subprocess.STDOUT,
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start `ff` where an app lies, and be sure that it ends."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("FF_", "COLUMNS"))}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "flowfabric.cli",
        *arguments,
        cwd=folder,
        env=environ,
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def until(process: asyncio.subprocess.Process, text: str, *others: str) -> str:
    """Read what it says up to a line, and the others if they have not come before it; return the first line."""
    assert process.stdout is not None
    said, wanted, found = "", {text, *others}, ""
    while line := (await process.stdout.readline()).decode():
        said += line
        found = line if text in wanted and re.search(text, line) else found
        wanted = {each for each in wanted if not re.search(each, line)}
        if not wanted:
            return found
    raise AssertionError(f"{wanted} was not said: {said}")


async def test_a_worker_runs_an_app_until_it_is_told_to_stop(place: Place, ff: Ff, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP, "utf-8")
    async with running(tmp_path, "worker", "shop", "--store", place.url, "--name", "painter") as worker:
        assert await place.result(await place.submit("greet", {"name": "Ada"})) == "HELLO, Ada"
        assert [each["worker_id"] for each in await ff.json("workers")] == ["painter"]
        worker.send_signal(signal.SIGTERM)
        assert await worker.wait() == 0


async def test_a_worker_says_what_it_does(place: Place, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP, "utf-8")
    async with running(tmp_path, "worker", "shop", "--store", place.url, "--json") as worker:
        begun = json.loads(await until(worker, "takes"))
        assert "takes greet, hang, nap from default, 16 at a time" in begun["message"]
        execution_id = await place.submit("greet", {"nmae": "Ada"})
        failed = json.loads(await until(worker, "failed"))
        wanted = (
            f"greet of {execution_id} failed (attempt 0, invalid_input): nmae: there is no such parameter"
        )
        assert (failed["level"], failed["message"].startswith(wanted)) == ("error", True), failed
        worker.send_signal(signal.SIGTERM)
        assert "stops" in json.loads(await until(worker, "stops"))["message"]
        assert await worker.wait() == 0


@pytest.mark.parametrize(
    "target",
    ["./shop.py:app", "shop.py", "{folder}/shop.py:app", "./pages/tasks.py:shop", "pages.tasks:shop"],
)
async def test_an_app_is_named_by_its_file_or_its_module(target: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP, "utf-8")
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "__init__.py").touch()
    (tmp_path / "pages" / "words.py").write_text("HELLO = 'HELLO'", "utf-8")
    package = APP.replace("app", "shop").replace("\nfrom", "\nfrom .words import HELLO\nfrom", 1)
    (tmp_path / "pages" / "tasks.py").write_text(package, "utf-8")
    target = target.replace("{folder}", str(tmp_path))
    async with running(tmp_path, "worker", target, "--store", "work.db") as worker:
        await until(worker, "takes greet, hang, nap from default")


@pytest.mark.parametrize(
    ("target", "code", "text"),
    [
        ("nowhere:app", 2, "there is no module nowhere; run ff in its folder, install it, or name its file"),
        ("shop.app", 2, "there is no module shop.app; for app in shop write shop:app"),
        ("nowhere/shop.py:app", 2, "there is no file nowhere/shop.py in "),
        ("./shop:app", 2, "there is no file shop; there is shop.py"),
        ("./pages:app", 2, "pages is a folder; name the file of the app"),
        ("./my.shop.py:app", 2, "my.shop.py cannot be imported; call the file NAME.py, with no other dot"),
        (
            "./pages/asyncio.py:app",
            2,
            "pages/asyncio.py cannot be imported: asyncio is another module already",
        ),
        (":app", 2, "'' is not the name of a module; write shop.tasks:app or ./shop.py:app"),
        ("shop:nothing", 2, "shop has no FlowFabric called nothing; write shop:app"),
        ("./shop.py:nothing", 2, "./shop.py has no FlowFabric called nothing; write ./shop.py:app"),
        ("shop:greet", 2, "greet in shop is of type function, not a FlowFabric; write shop:app"),
        ("empty", 2, "empty has no FlowFabric called app; make one: app = FlowFabric()"),
        ("needy", 1, "needy cannot be imported: ImportError: cannot import name 'no' from 'shop'"),
        (
            "./bare.py",
            1,
            "bare.py cannot be imported: ModuleNotFoundError: No module named 'no' ({}bare.py, line 1)",
        ),
        ("odd:app", 1, "odd cannot be imported: SyntaxError: '(' was never closed ({}odd.py, line 1)"),
        ("broken", 1, "broken cannot be imported: ZeroDivisionError: division by zero ({}broken.py, line 3)"),
    ],
)
async def test_an_app_that_cannot_be_loaded_is_explained(
    target: str, code: int, text: str, tmp_path: Path
) -> None:
    files = {
        "shop.py": APP,
        "my.shop.py": APP,
        "empty.py": "",
        "odd.py": "app = (",
        "needy.py": "from shop import no",
        "bare.py": "import no",
        "broken.py": "\ndef half():\n    1 / 0\nhalf()",
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content, "utf-8")
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "asyncio.py").write_text(APP, "utf-8")  # where ff starts it would hide Python's own
    async with running(tmp_path, "worker", target, "--store", "work.db") as worker:
        out, _ = await worker.communicate()
    said = out.decode()
    assert said.startswith(f"ff: {text.replace('{}', f'{tmp_path}/')}"), said
    assert (worker.returncode, said.count("\n")) == (code, 1)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A folder with an app."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "shop.py").write_text(APP, "utf-8")
    return folder


LOCAL = ("--listen", "127.0.0.1:0")


async def test_dev_serves_works_and_reloads(backend: Backend, code: Path) -> None:
    async with running(code, "dev", "shop:app", *backend.flags, *LOCAL) as dev:
        assert dev.stdin is not None
        ff = Ff((await until(dev, "serves")).split()[0])
        await until(dev, "type submit KIND NAME=VALUE")
        assert (await ff("submit", "greet", "name=Ada", "--wait")).json == "HELLO, Ada"
        await until(dev, "» Ada is greeted")
        await until(dev, 'completed: "HELLO, Ada"')
        (code / "shop.py").write_text(APP.replace("HELLO", "BYE"), "utf-8")
        await until(dev, "worker-1 is restarted: shop.py has changed")
        await until(dev, "worker-2 runs shop:app")
        dev.stdin.write(b"submit greet name=Ben\n")  # any command can be typed
        await until(dev, 'completed: "BYE, Ben"')
        dev.stdin.write(b"submit nap\n")
        await until(dev, "nap .* suspended")  # who sleeps asks nobody
        dev.stdin.write(b"a\n'\nr\n")
        await until(
            dev,
            "nothing asks for an answer now",
            "ff: No closing quotation",
            "worker-2 is restarted: as requested",
            "worker-3 runs shop:app",
        )
        dev.stdin.write(b"q\n")
        assert await dev.wait() == 0


async def test_dev_tells_programs_what_happens(backend: Backend, code: Path) -> None:
    told = asyncio.subprocess.PIPE
    async with running(
        code, "dev", "shop:app", "--json", *backend.flags, *LOCAL, "--submit", "greet name=Ada", stderr=told
    ) as dev:
        assert dev.stdout is not None
        lines: list[dict[str, object]] = []
        while not lines or lines[-1].get("event") != "completed":
            line = await dev.stdout.readline()
            assert line, lines
            lines.append(json.loads(line))
        assert {line["execution_id"] for line in lines} == {lines[0]["execution_id"]}
        assert [line["event"] for line in lines if "event" in line] == ["created", "claimed", "completed"]
        assert [line["payload"] for line in lines if line.get("type") == "log"] == ["Ada is greeted"]
        dev.terminate()
        assert await dev.wait() == 0


async def test_the_options_of_a_task_hold_for_what_dev_submits(backend: Backend, code: Path) -> None:
    (code / "shop.py").write_text(APP + FLAKY, "utf-8")
    async with running(
        code,
        "dev",
        "shop:app",
        "--json",
        *backend.flags,
        *LOCAL,
        "--submit",
        "flaky",
        stderr=asyncio.subprocess.DEVNULL,
    ) as dev:
        assert dev.stdout is not None
        ends: list[str] = []
        while not ends:
            line = json.loads(await dev.stdout.readline())
            ends += [line["event"]] if line.get("event") in {"completed", "failed"} else []
        assert ends == ["completed"]
        dev.terminate()
        assert await dev.wait() == 0


async def test_where_nothing_can_be_typed_a_kill_does_the_same(backend: Backend, code: Path) -> None:
    nothing = asyncio.subprocess.DEVNULL
    submit = ("--submit", "hang")
    async with running(code, "dev", "shop:app", *backend.flags, *LOCAL, *submit, stdin=nothing) as dev:
        address = (await until(dev, "serves")).split()[0]
        started = await until(dev, "worker-1 runs", "nothing can be typed here: `kill -9`")
        worker = int(started.split()[-1].rstrip(")"))
        await until(dev, "» hanging")
        os.kill(worker, signal.SIGKILL)
        await until(dev, f"worker-1 was killed .process {worker}.; another one starts")
        other = int((await until(dev, "worker-2 runs")).split()[-1].rstrip(")"))
        await until(dev, "hang .* the lease of worker-1 expired")
        await until(dev, "hang .* reclaimed by worker-2")
        await until(dev, 'hang .* completed: "recovered"')
        (run,) = await Ff(address).json("ps")
        assert (run["public_state"], run["execution_kind"]) == ("completed", "hang")
        dev.terminate()
        assert await dev.wait() == 0
        with pytest.raises(ProcessLookupError):
            os.kill(other, 0)


async def test_a_store_that_goes_away_comes_back(code: Path) -> None:
    server = ValkeyServer("--appendonly", "yes", "--appendfsync", "always")
    try:
        async with running(code, "dev", "shop:app", "--store", server.url, *LOCAL) as dev:
            assert dev.stdin is not None
            dev.stdin.write(b"submit greet name=Ada\n")
            await until(dev, 'completed: "HELLO, Ada"')
            server.kill()
            await until(dev, "the store is unreachable: ")
            server.start()
            await until(dev, "the store is reachable again")
            dev.stdin.write(b"submit greet name=Ben\n")
            await until(dev, 'completed: "HELLO, Ben"')
            dev.stdin.write(b"ps --live\n")
            await until(dev, "greet +completed", "greet +completed")
            dev.stdin.write(b"\nq\n")
            assert await dev.wait() == 0
    finally:
        server.stop()


async def test_an_app_that_breaks_waits_for_a_change(code: Path) -> None:
    (code / "shop.py").write_text("import missing_module", "utf-8")
    async with running(code, "dev", "shop:app", "--store", "work.db", *LOCAL) as dev:
        await until(dev, "missing_module")
        await until(dev, "worker-1 ended with 1; a change, or r and Enter, restarts it")
        assert dev.stdin is not None
        dev.stdin.write(b"k\n")
        await until(dev, "no worker runs now; r and Enter starts one")
        (code / "shop.py").write_text(APP, "utf-8")
        await until(dev, "shop.py has changed")
        assert dev.stdin is not None
        dev.stdin.write(b"submit greet name=Cy\n")
        await until(dev, 'completed: "HELLO, Cy"')


@pytest.mark.parametrize("command", [("dev", "shop:app"), ("server",)])
async def test_an_address_that_is_taken_is_named_with_the_remedy(
    command: tuple[str, ...], code: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        async with running(code, *command, "--store", "work.db", "--listen", listen) as process:
            said = (await process.communicate())[0].decode()
    assert process.returncode == 1
    assert f"cannot listen on {listen}: Address already in use" in said
    assert "choose another address with --listen HOST:PORT or FF_LISTEN_ADDR" in said
    assert "Traceback" not in said


async def test_dev_wants_a_store_of_its_own(code: Path) -> None:
    async with running(code, "dev", "shop:app", "--store", "http://127.0.0.1:1") as process:
        said = (await process.communicate())[0].decode()
    assert (process.returncode, said) == (
        2,
        "ff: ff dev starts its own server: name a store, not a server\n",
    )


async def test_a_second_interrupt_of_a_worker_gives_its_work_back(place: Place, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP, "utf-8")
    execution_id = await place.submit("hang")
    async with running(tmp_path, "worker", "shop", "--store", place.url, "--grace", "1h", "--json") as worker:
        await until(worker, "takes")
        await place.state(execution_id, "active")
        emitted = TailStream(execution_id=execution_id, attempt_index=0, after="0-0", count=1)
        assert (await tail_when_ready(place.store, emitted, 20_000)).frames
        worker.send_signal(signal.SIGINT)
        waiting = json.loads(await until(worker, "waiting up to"))
        assert waiting["level"] == "warning"
        assert f"1 running task: hang of {execution_id} (for " in waiting["message"]
        worker.send_signal(signal.SIGINT)
        assert await worker.wait() == 0
    run = await place.run(execution_id)
    assert (run.lease_end, run.failure_reason) == ("released", "")
