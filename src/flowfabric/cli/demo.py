"""`ff demo`: real processes, a real kill, and the work that survives it."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import uuid
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from flowfabric.cli.demo_worker import LANE, LEASE_MS
from flowfabric.cli.exits import Refused
from flowfabric.cli.narrator import Narrator
from flowfabric.cli.screen import Screen
from flowfabric.engine import Engine, wait_until_ended
from flowfabric.model.contracts.create import CreateExecution
from flowfabric.model.contracts.reads import (
    Describe,
    GetResult,
    ListAttempts,
    ListSteps,
    ListWaitpoints,
    ReadToken,
)
from flowfabric.model.contracts.waiting import DeliverSignal
from flowfabric.model.ids import spread
from flowfabric.model.records import Execution
from flowfabric.model.state import Public
from flowfabric.storage import open_store
from flowfabric.storage.base import Upkeep
from flowfabric.storage.resolve import MEMORY

LISTEN: Final = "127.0.0.1:9090"
WORKERS: Final = ("ada", "ben")
PLAN: Final = (
    ("report", "report"),
    ("thumbnail-1", "thumbnail"),
    ("upload", "upload"),
    ("invoice", "invoice"),
    ("thumbnail-2", "thumbnail"),
)
"""Names and kinds of what is submitted."""
POLICY: Final = {"retry_policy": {"max_retries": 3, "backoff": {"type": "fixed", "delay_ms": 500}}}
PATIENCE_SECONDS: Final = 30.0
"""Far more than it takes; a machine that needs longer is told so."""


async def show(path: str, *, serve: bool = False, listen: str = "") -> int:
    """Run the demonstration and return the exit code; with `serve`, go on over HTTP until cancelled."""
    with tempfile.TemporaryDirectory(prefix="flowfabric-") as folder:
        demo = Demo(Screen(), path or str(Path(folder) / "demo.db"), (listen or LISTEN) if serve else "")
        try:
            return await demo.run()
        except TimeoutError:
            demo.screen.line(
                f"\nnot finished after {PATIENCE_SECONDS:.0f} seconds; is this machine very busy?"
            )
            return 1


class Demo:
    """One run: a store, two workers, five executions, one murder."""

    def __init__(self, screen: Screen, path: str, listen: str = "") -> None:
        self.screen = screen
        self._path = path
        self._listen = listen
        self._ids: dict[str, str] = {}
        self._workers: dict[str, Process] = {}

    async def run(self) -> int:
        """Play every scene."""
        self.screen.line(self.screen.paint("FlowFabric: work that survives its workers", "bold"))
        self.screen.line(f"database {self._path}, workers {' and '.join(WORKERS)}, leases of {LEASE_MS} ms\n")
        async with AsyncExitStack() as stack:
            store = await open_store(self._path)
            stack.push_async_callback(store.close)
            address = await stack.enter_async_context(self._engine(store))
            narrator = Narrator(store, self.screen)
            await self._submit(store, narrator)
            await stack.enter_async_context(_running(narrator.run()))
            await stack.enter_async_context(self._working())
            async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as scenes:
                scenes.create_task(self._kill_the_author(store, narrator))
                scenes.create_task(self._approve(store, narrator))
                for execution_id in self._ids.values():
                    scenes.create_task(_ended(store, execution_id))
            await narrator.catch_up()
            code = await self._close(store, narrator)
            if address:
                await self._invite(narrator, address)
            return code

    @asynccontextmanager
    async def _engine(self, store: Upkeep) -> AsyncIterator[str]:
        """Run an engine, or a server, whose address is returned."""
        if not self._listen:
            async with Engine(store):
                yield ""
            return
        async with served(store, self._path, self._listen) as address:
            yield address

    async def _invite(self, narrator: Narrator, address: str) -> None:
        """Let people try the server, and tell what comes of it."""
        body = json.dumps({"kind": "thumbnail", "lane": LANE})
        self.screen.line(f"\nthe server listens on {address}, and a worker waits. Try, in another terminal:")
        self.screen.line(f"  curl -s {address}/v1/submit -H 'content-type: application/json' -d '{body}'")
        self.screen.line(f"  curl -s {address}/v1/executions\nCtrl-C ends it.\n")
        narrator.follow_all = True
        await asyncio.Event().wait()

    async def _submit(self, store: Upkeep, narrator: Narrator) -> None:
        for name, kind in PLAN:
            execution_id = spread(str(uuid.uuid4()), store.partitions)
            narrator.follow(execution_id, name)
            self._ids[name] = execution_id
            await store.apply(
                CreateExecution(
                    execution_id=execution_id,
                    execution_kind=kind,
                    lane_id=LANE,
                    policy=json.dumps(POLICY).encode(),
                    tags=(("name", name),),
                )
            )

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[None]:
        """Start the workers; they stop when their standard input is closed."""
        try:
            for name in WORKERS:
                self._workers[name] = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "flowfabric.cli", "demo-worker", "--path", self._path, "--name", name,
                    stdin=asyncio.subprocess.PIPE,
                )  # fmt: skip
            yield
        finally:
            for process in self._workers.values():
                assert process.stdin is not None
                process.stdin.close()
            for process in self._workers.values():
                await process.wait()

    async def _kill_the_author(self, store: Upkeep, narrator: Narrator) -> None:
        """Kill whoever writes the report, after its first step was stored."""
        execution_id = self._ids["report"]

        async def begun() -> bool:
            return bool(await store.read(ListSteps(execution_id=execution_id)))

        await _until(store, execution_id, begun)
        await asyncio.sleep(0.2)
        victim = (await store.read(Describe(execution_id=execution_id))).run.current_worker_id
        process = self._workers[victim]
        process.kill()
        await process.wait()
        narrator.tell(
            store.now(), "demo", f"killed {victim} (process {process.pid}) in the middle of report", "red"
        )

    async def _approve(self, store: Upkeep, narrator: Narrator) -> None:
        """Answer the invoice with its token, as somebody outside would."""
        execution_id = self._ids["invoice"]

        async def suspended() -> bool:
            run = (await store.read(Describe(execution_id=execution_id))).run
            return run.public_state is Public.SUSPENDED

        await _until(store, execution_id, suspended)
        (waitpoint,) = (await store.read(ListWaitpoints(execution_id=execution_id))).waitpoints
        token = await store.read(ReadToken(execution_id=execution_id, waitpoint_id=waitpoint.waitpoint_id))
        assert token is not None
        await asyncio.sleep(1.0)
        narrator.tell(
            store.now(), "demo", "carol approves, with the signed token of its waitpoint", "magenta"
        )
        await store.apply(
            DeliverSignal(
                execution_id=execution_id,
                waitpoint_id=waitpoint.waitpoint_id,
                waitpoint_token=token,
                signal_id=str(uuid.uuid4()),
                signal_name="approved",
                source_type="person",
                source_identity="carol",
            )
        )

    async def _close(self, store: Upkeep, narrator: Narrator) -> int:
        """Show how everything ended, and judge it."""
        rows = [await _row(store, name, execution_id) for name, execution_id in self._ids.items()]
        self.screen.line()
        self.screen.table(("execution", "state", "attempts", "steps", "by", "result"), rows)
        well = (
            all(row[1] == Public.COMPLETED for row in rows)
            and narrator.seen.count(("report", "reclaimed")) == 1
            and narrator.seen.count(("report", "step")) == len(("collect", "write"))
        )
        verdict = "nothing was lost, and no stored step ran twice" if well else "this did not go as it should"
        self.screen.line(f"\n{self.screen.paint(verdict, 'green' if well else 'red')}")
        return 0 if well else 1


@asynccontextmanager
async def served(store: Upkeep, path: str, listen: str) -> AsyncIterator[str]:
    """Serve a store over HTTP and return the address."""
    try:
        from flowfabric.server.listener import bind, where  # noqa: PLC0415 - the plain demo needs no server
        from flowfabric.server.server import Server  # noqa: PLC0415
        from flowfabric.server.settings import load_settings  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise Refused(f"{error.name} is missing; install flowfabric[server]") from error

    # The store is open and has its secret, so none is asked for.
    settings = replace(load_settings({"FF_STORE": MEMORY, "FF_LISTEN_ADDR": listen}), store=path)
    sockets = bind(settings)
    server = await Server.start(settings, store=store)
    serving = asyncio.create_task(server.serve(sockets))
    try:
        yield f"http://{where(sockets[0])}"
    finally:
        server.stop()
        await serving
        await server.shutdown()


async def _row(store: Upkeep, name: str, execution_id: str) -> tuple[str, ...]:
    run = (await store.read(Describe(execution_id=execution_id))).run
    attempts = await store.read(ListAttempts(execution_id=execution_id))
    result = (await store.read(GetResult(execution_id=execution_id))).result
    return (
        name,
        str(run.public_state),
        str(run.total_attempt_count),
        str(run.step_count),
        ", ".join(dict.fromkeys(attempt.worker_id for attempt in attempts)),
        json.loads(result.data) if result else "",
    )


@asynccontextmanager
async def _running(work: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _ended(store: Upkeep, execution_id: str) -> Execution:
    return await wait_until_ended(store, execution_id, int(PATIENCE_SECONDS * 1000))


async def _until(store: Upkeep, execution_id: str, reached: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so, looking whenever the execution changes."""
    async with store.subscribe([f"execution:{execution_id}"]) as woken:
        while not await reached():
            await woken.wait(1.0)
