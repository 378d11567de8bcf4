"""Workers of an app: handlers run, children exist once, dependencies and hooks live as long as the worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from flowfabric import Context, FlowFabric, SyncContext, TaskFailed, provided
from flowfabric.app import UnknownTask
from support.face import Face


class Client:
    """Something that is opened and closed."""

    def __init__(self, log: list[str], name: str = "client") -> None:
        self.log = log
        self.name = name
        log.append(f"open {name}")

    def close(self) -> None:
        self.log.append(f"close {self.name}")


class Pool(Client): ...


class Managed(Client):
    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


async def test_handlers_run_with_context_and_results_return(face: Face) -> None:
    app = face.app()

    @app.task
    async def greet(ctx: Context, name: str) -> str:
        return f"hello, {name} ({ctx.execution_id})"

    @app.task
    def double(n: int) -> int:
        return 2 * n

    async with app.worker():
        hello, four = await app.submit(greet, "ada"), await app.submit(double, 2)
        assert await hello.result(timeout="30s") == f"hello, ada ({hello.id})"
        assert await four.result(timeout="30s") == 4


async def test_arguments_that_do_not_fit_fail_without_running(face: Face) -> None:
    app = face.app()
    ran: list[int] = []

    @app.task(retries=5)
    async def job(n: int) -> None:
        ran.append(n)

    async with app.worker():
        run = await face.app().submit("job", n="three")
        with pytest.raises(TaskFailed, match="n: Expected `int`, got `str`") as failed:
            await run.result(timeout="30s")
    assert failed.value.category == "invalid_input"
    assert not ran


async def test_what_handlers_need_is_opened_once_and_closed_with_the_worker(face: Face) -> None:
    app = face.app()
    log: list[str] = []

    @app.provide(Client)
    async def client() -> AsyncIterator[Client]:
        opened = Client(log)
        yield opened
        opened.close()

    @app.provide(Pool)
    def pool() -> Iterator[Pool]:
        opened = Pool(log, "pool")
        yield opened
        opened.close()

    app.provide(Managed, lambda: Managed(log, "managed"))
    app.provide(dict, lambda: log.append("never needed"))

    @app.task
    async def job(n: int, client: Client, *, pool: Pool = provided, managed: Managed = provided) -> str:
        return f"{client.name} {pool.name} {managed.name} {n}"

    async with app.worker():
        runs = [await app.submit("job", n) for n in range(3)]
        assert [await run.result(timeout="30s") for run in runs] == [
            f"client pool managed {n}" for n in range(3)
        ]
        assert log == ["open client", "open managed", "open pool"]
    assert log[3:] == ["close pool", "close managed", "close client"]


async def test_what_cannot_be_opened_stops_the_worker_and_closes_the_rest(face: Face) -> None:
    app = face.app()
    log: list[str] = []

    def broken() -> Pool:
        raise OSError("no such pool")

    app.provide(Managed, lambda: Managed(log, "managed"))
    app.provide(Pool, broken)

    @app.task
    async def job(managed: Managed, pool: Pool) -> None: ...

    with pytest.raises(OSError, match="no such pool"):
        async with app.worker():
            pass
    assert log == ["open managed", "close managed"]


async def test_hooks_run_around_the_worker(face: Face) -> None:
    app = face.app()
    log: list[str] = []

    @app.on_start
    async def begin() -> None:
        log.append("start")

    @app.on_stop
    def end() -> None:
        log.append("stop")

    app.task(name="job")(lambda: log.append("run"))
    async with app.worker():
        await (await app.submit("job")).result(timeout="30s")
    assert log == ["start", "run", "stop"]


async def test_a_context_may_be_left_out_by_other_callers(face: Face) -> None:
    app = face.app()

    @app.task
    async def report(ctx: Context | None = None, *, month: str = "May") -> str:
        return f"{month} {ctx is not None}"

    async with app.worker():
        run = await app.submit(report, month="June")
        assert await run.result(timeout="30s") == "June True"
    assert await report() == "May False"


@pytest.mark.parametrize("prepared", [False, True])
async def test_child_is_submitted_once_and_its_handle_is_typed(face: Face, prepared: bool) -> None:
    app = face.app()
    seen: list[Any] = []

    @app.task
    def pair(n: int) -> tuple[int, int]:
        return n, n

    @app.task(retries=1, backoff=0)
    async def parent(ctx: Context) -> str:
        call = app.options(lane="default", priority=3).call(pair, 7)
        child = await (ctx.submit(call) if prepared else ctx.submit(pair, 7))
        seen.append(child)
        if ctx.attempt == 0:
            raise RuntimeError("after the child was submitted")
        return str(child.id)

    async with app.worker(engine=False):
        run = await app.submit(parent)
        assert await run.result(timeout="30s") == seen[0].id == seen[1].id
        assert await seen[1].result(timeout="30s") == (7, 7)
        assert (await seen[1].status()).priority == (3 if prepared else 0)


async def test_plain_function_submits_a_child_and_waits_for_it(face: Face) -> None:
    app = face.app()

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    @app.task
    def parent(ctx: SyncContext) -> list[int]:
        return [ctx.submit(double, 4).result(timeout="30s"), ctx.submit("double", n=5).result(timeout="30s")]

    async with app.worker():
        assert await (await app.submit(parent)).result(timeout="30s") == [8, 10]


async def test_child_that_is_no_task_is_refused(face: Face) -> None:
    app = face.app()

    def stray() -> None: ...

    @app.task
    async def parent(ctx: Context) -> None:
        await ctx.submit(stray)

    async with app.worker():
        with pytest.raises(TaskFailed, match="stray is no task of this app"):
            await (await app.submit(parent)).result(timeout="30s")
    assert issubclass(UnknownTask, TypeError)


async def test_stream_is_told_while_the_handler_runs(face: Face) -> None:
    app = face.app()
    go_on = asyncio.Event()

    @app.task
    async def talk(ctx: Context) -> None:
        await ctx.emit("token", "hello")
        await go_on.wait()
        await ctx.emit("token", "world")

    async with app.worker():
        run = await app.submit(talk)
        texts: list[str] = []
        async for item in run.stream():
            texts.append(getattr(item, "text", f"attempt {item.attempt}"))
            go_on.set() if "hello" in texts else None
    assert texts == ["attempt 0", "hello", "world"]


async def test_approval_by_the_handle(face: Face) -> None:
    app = face.app()

    @app.task
    async def ask(ctx: Context) -> str:
        answer = await ctx.wait_for_signal("approve", "reject")
        return f"{answer.name} by {answer.source}"

    async with app.worker():
        run = await app.submit(ask)
        await run.approve(by="ada", within="30s")
        assert await run.result(timeout="30s") == "approve by ada"


@pytest.mark.one_store
async def test_app_opens_and_closes_its_own_store(tmp_path: Path) -> None:
    app = FlowFabric(str(tmp_path / "work.db"))

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    async with app.worker():
        run = await app.submit(double, 4)
        assert await run.result(timeout="30s") == 8
    assert app._core.connection._store is None
    assert await run.result() == 8, "it is opened again when it is needed again"
    await app.close()
