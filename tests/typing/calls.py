"""What type checkers must know about tasks: read by mypy and pyright, never run.

A comment that ignores an error is an error itself where there is none to ignore, so each of them says: this is wrong.
"""

from __future__ import annotations

import asyncio
from typing import assert_type

from flowfabric import (
    AttemptStarted,
    Backoff,
    Context,
    FlowFabric,
    Frame,
    Run,
    Signal,
    Superseded,
    SyncContext,
    SyncRun,
    provided,
)
from flowfabric.model.state import Public

app = FlowFabric()


class Plain:
    """A codec of the user's."""

    name = "plain"

    def encode(self, value: object) -> bytes:
        return str(value).encode()

    def decode(self, data: bytes, type_: object) -> str:
        return data.decode()


class Client:
    """What a worker opens for its handlers."""


@app.task
async def review(ctx: Context, doc: str, *, pages: int = 1) -> dict[str, bool]:
    return {doc: pages > 1}


@app.task(retries=3, timeout="2m", lane="slow")
async def double(n: int) -> int:
    return 2 * n


@app.task(executor="process")
def measure(data: bytes, *, http: Client = provided) -> float:
    return len(data) / 2


@app.task(version=2)
def listed(ctx: SyncContext, names: list[str]) -> list[str]:
    return names


async def functions_stay_what_they_were(ctx: Context, sync: SyncContext) -> None:
    assert_type(await double(1), int)
    assert_type(await review(ctx, "text"), dict[str, bool])
    assert_type(listed(sync, ["a"]), list[str])
    await double("1")  # type: ignore[arg-type]


async def runs_carry_the_type_of_the_result() -> None:
    assert_type(await app.submit(review, "text"), Run[dict[str, bool]])
    assert_type(await app.submit(review, "text", pages=2), Run[dict[str, bool]])
    assert_type(await app.submit(double, 1), Run[int])
    assert_type(await app.submit(measure, b""), Run[float])
    assert_type(await app.submit(listed, ["a"]), Run[list[str]])
    assert_type(await (await app.submit(double, n=1)).result(), int)
    assert_type(await app.options(delay="1m").submit(double, 1), Run[int])
    assert_type(await app.submit_many([app.call(double, 1), app.call(double, 2)]), list[Run[int]])
    assert_type(
        await app.submit_many(app.call(review, text) for text in ("a", "b")), list[Run[dict[str, bool]]]
    )
    assert_type(app.run("id", double), Run[int])
    assert_type(app.run("id", measure), Run[float])


async def everything_else_has_types(run: Run[int]) -> None:
    other = FlowFabric("work.db", codec=Plain(), namespace="team", patience="5s")
    other.provide(Client, Client)
    async with other.worker(concurrency=4, lanes=["slow"], lease_ttl="5s"):
        async for item in run.stream():
            if isinstance(item, Frame):
                assert_type(item.text, str)
            elif isinstance(item, Superseded):
                assert_type(item.kept_steps, tuple[str, ...])
            else:
                assert_type(item, AttemptStarted)
    assert_type((await run.status()).state, Public)
    assert_type([event.event for event in await run.history()], list[str])
    FlowFabric(codec="json")  # type: ignore[arg-type]
    await run.signal(1)  # type: ignore[arg-type]


async def waits_do_too(ctx: Context, sync: SyncContext) -> None:
    assert_type(await ctx.wait_for_signal("a"), Signal)
    assert_type(await ctx.wait_for_signal("a", "b", count="all"), list[Signal])
    assert_type(sync.wait_for_signal("a", timeout="1d"), Signal)
    assert_type(sync.wait_for_signal("a", count=2, distinct=True), list[Signal])
    sync.wait_for_signal("a", count="some")  # type: ignore[call-overload]


async def steps_have_types(ctx: Context) -> None:
    assert_type(await ctx.step("a", len, "text"), int)
    assert_type(await ctx.step("b", double, 2), int)
    await ctx.step("c", double, "2")  # type: ignore[call-overload]
    async with asyncio.TaskGroup() as group:
        assert_type(group.create_task(ctx.step("d", double, 2)), asyncio.Task[int])

    @ctx.step("e")
    async def half(n: int) -> float:
        return n / 2

    @ctx.step("f")
    def third(n: int) -> float:
        return n / 3

    assert_type(await half(1), float)
    assert_type(await third(1), float)
    await half("1")  # type: ignore[arg-type]


def steps_of_plain_functions_do_too(ctx: SyncContext) -> None:
    assert_type(ctx.step("a", len, "text"), int)
    assert_type(ctx.step("b", double, 2), int)

    @ctx.step("c")
    def half(n: int) -> float:
        return n / 2

    assert_type(half(1), float)
    half("1")  # type: ignore[arg-type]


async def steps_with_options_do_too(ctx: Context, sync: SyncContext) -> None:
    careful = ctx.options(
        retries=3, backoff=Backoff("1s"), timeout="30s", retry_on=(ConnectionError, "timeout")
    )
    assert_type(await careful.step("a", len, "text"), int)
    assert_type(await careful.step("b", double, 2), int)
    assert_type(sync.options(retries=1).step("c", double, 2), int)
    assert_type(await (await ctx.options(lane="x").submit(double, 1)).result(), int)
    assert_type(sync.options(delay="1h").submit(listed, ["a"]).result(), list[str])
    await careful.step("d", double, "2")  # type: ignore[call-overload]
    await careful.submit(double, "1")  # type: ignore[call-overload]
    ctx.options(retires=3)  # type: ignore[call-arg]
    sync.options(timeout=[1])  # type: ignore[arg-type]

    @careful.step("e")
    async def half(n: int) -> float:
        return n / 2

    assert_type(await half(1), float)


async def children_do_too(ctx: Context, sync: SyncContext) -> None:
    assert_type(await (await ctx.submit(double, 1)).result(), int)
    assert_type(await (await ctx.submit(review, "text")).result(), dict[str, bool])
    assert_type(sync.submit(listed, ["a"]).result(timeout="1m"), list[str])
    assert_type(await (await ctx.submit(app.options(lane="x").call(double, 1))).result(), int)
    assert_type(sync.submit(app.call(review, "text")).result(), dict[str, bool])
    assert_type(await app.submit(app.call(double, 1)), Run[int])
    assert_type(app.sync.submit(app.call(double, 1)), SyncRun[int])
    await ctx.submit(double, "1")  # type: ignore[call-overload]
    sync.submit(review, 1)  # type: ignore[call-overload]


def sync_runs_do_too() -> None:
    assert_type(app.sync.submit(double, 1), SyncRun[int])
    assert_type(app.sync.submit(review, "text").result(timeout="1m"), dict[str, bool])
    assert_type(app.sync.options(key="k").submit(double, 1), SyncRun[int])
    assert_type(app.sync.run("id", double), SyncRun[int])
    app.sync.options(retires=3)  # type: ignore[call-arg]
    app.sync.submit(double, 1).approve(bye="ada")  # type: ignore[call-arg]


async def wrong_arguments_are_errors(ctx: Context) -> None:
    await app.submit(double, "1")  # type: ignore[call-overload]
    await app.submit(double)  # type: ignore[call-overload]
    await app.submit(double, 1, 2)  # type: ignore[call-overload]
    await app.submit(double, m=1)  # type: ignore[call-overload]
    await app.submit(review, 1)  # type: ignore[call-overload]
    await app.submit(review, "text", pages="2")  # type: ignore[arg-type]
    await app.submit(measure, "text")  # type: ignore[call-overload]
    await app.submit(listed, [1])  # type: ignore[call-overload]
    await app.options(key="k").submit(double, "1")  # type: ignore[call-overload]
    app.call(double, "1")  # type: ignore[call-overload]
    app.sync.submit(double, "1")  # type: ignore[call-overload]
    app.options(retires=3)  # type: ignore[call-arg]
    text: str = await (await app.submit(double, 1)).result()  # type: ignore[assignment]
    assert text


@app.task(retires=3)  # type: ignore[call-overload, untyped-decorator]
def misspelt() -> None: ...
