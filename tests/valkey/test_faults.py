"""Faults of a server under load: nothing acknowledged is lost, nothing succeeds twice, nothing stays stuck."""

from __future__ import annotations

import asyncio
import random
import shutil

import pytest

import valkey
from support.chaos.load import sound, under_load
from support.proxy import proxy
from support.valkey import ValkeyServer
from support.valkey_nodes import ask, info, node, nodes, pause, resume

pytestmark = pytest.mark.timeout(120)
SLOW_LOADING = ("--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024")


@pytest.mark.parametrize("fast_paths", [True, False])
async def test_a_restart_loses_nothing_when_every_write_is_synced(fast_paths: bool) -> None:
    with nodes() as stack:
        server = node(stack, "--appendonly", "yes", "--appendfsync", "always")
        async with under_load(server.url, fast_paths=fast_paths) as load:
            for _ in range(2):
                await load.more()
                server.kill()
                await load.met("unreachable")
                await asyncio.to_thread(server.start)
            await load.more()
            facts = await load.settle()
        await sound(server.url, facts)


async def test_a_restart_leaves_everything_consistent_when_writes_are_synced_every_second() -> None:
    with nodes() as stack:
        server = node(stack, "--appendonly", "yes", "--appendfsync", "everysec")
        async with under_load(server.url, lossy=True) as load:
            for _ in range(2):
                await load.more()
                server.kill()
                await asyncio.to_thread(server.start)
            await load.more()
            await load.settle()
        checker = await sound(server.url, [])
        assert checker.runs


async def test_a_server_that_loads_is_waited_for() -> None:
    with nodes() as stack:
        server = node(stack, "--appendonly", "yes", "--appendfsync", "always", *SLOW_LOADING)
        async with under_load(server.url) as load:
            await load.more(2000)  # a server that loads looks up after every 1024 commands
            server.kill()
            await asyncio.to_thread(server.start)
            await load.met("store_busy")
            await load.more()
            facts = await load.settle()
        await sound(server.url, facts)


async def test_functions_that_are_removed_are_loaded_again() -> None:
    with nodes() as stack:
        server = node(stack)
        async with under_load(server.url) as load:
            for _ in range(10):
                await load.more(30)
                ask(server, "FUNCTION", "FLUSH")
            facts = await load.settle()
        assert not load.troubles
        await sound(server.url, facts)


async def test_a_server_that_stands_still_is_given_up_and_comes_back() -> None:
    with nodes() as stack:
        server = node(stack)
        async with under_load(server.url, timeout=0.5) as load:
            for _ in range(2):
                await load.more()
                pause(server)
                await load.met("unreachable", 8)  # every client at once: what it asked may have been done
                resume(server)
            await load.more()
            facts = await load.settle()
        await sound(server.url, facts)


@pytest.mark.parametrize("side", ["requests", "replies"])
async def test_connections_that_are_cut_anywhere(side: str) -> None:
    chances = random.Random(side)

    def somewhere() -> tuple[float, float]:
        place = chances.choice((1, 60, 900, 9_000)) * (1 + chances.random())
        return (place, float("inf")) if side == "requests" else (float("inf"), place)

    with nodes() as stack:
        server = node(stack)
        async with proxy(server.port) as between:
            url = f"valkey://127.0.0.1:{between.port}/0"
            async with under_load(url, clients=3) as load:
                between.allowance = somewhere
                between.cut()
                while between.cuts < 100:
                    await load.more(5)
                between.allowance = lambda: (float("inf"), float("inf"))
                facts = await load.settle()
        assert load.troubles["unreachable"]
        await sound(server.url, facts)


async def test_a_script_that_holds_the_server() -> None:
    with nodes() as stack:
        server = node(stack, "--busy-reply-threshold", "50")
        async with under_load(server.url) as load:
            await load.more()
            endless = asyncio.create_task(asyncio.to_thread(_endless, server))
            await load.met("store_busy")
            ask(server, "SCRIPT", "KILL")
            await endless
            await load.more()
            facts = await load.settle()
        await sound(server.url, facts)


def _endless(server: ValkeyServer) -> None:
    with valkey.Valkey(port=server.port) as client, pytest.raises(valkey.ResponseError):
        client.eval("while true do end", 0)


async def test_no_memory_is_left() -> None:
    with nodes() as stack:
        server = node(stack)
        async with under_load(server.url) as load:
            await load.more()
            ask(server, "CONFIG", "SET", "maxmemory", info(server, "memory")["used_memory"])
            await load.met("store_full", 20)
            ask(server, "CONFIG", "SET", "maxmemory", 0)
            await load.more()
            facts = await load.settle()
        await sound(server.url, facts)


async def test_the_disk_cannot_be_written() -> None:
    with nodes() as stack:
        server = node(stack, "--save", "3600 1", "--enable-protected-configs", "yes")
        async with under_load(server.url) as load:
            await load.more()
            shutil.rmtree(server.folder)
            ask(server, "BGSAVE")
            await load.met("store_full", 20)
            server.folder.mkdir()
            ask(server, "CONFIG", "SET", "dir", str(server.folder))
            ask(server, "BGSAVE")
            await load.more()
            facts = await load.settle()
        await sound(server.url, facts)


async def test_the_checker_notices_what_is_missing() -> None:
    with nodes() as stack:
        server = node(stack)
        async with under_load(server.url) as load:
            await load.more(300)
            facts = await load.settle()
        checker = await sound(server.url, facts)
    lost = [fact | {"id": "{fp:1}:00000000-0000-4000-8000-000000000000"} for fact in facts]
    for kind in {fact["fact"] for fact in facts}:
        with pytest.raises(AssertionError, match="not there"):
            checker.check([next(fact for fact in lost if fact["fact"] == kind)])
    done = [fact for fact in facts if fact["fact"] == "complete"]
    with pytest.raises(AssertionError, match="twice"):
        checker.check([*facts, done[0]])
