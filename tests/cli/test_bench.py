"""`ff bench`: what it measures, and that it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from support.commands import Ff
from support.serving import Backend
from support.stores import chosen
from support.terminal import INTERRUPT, on_terminal
from support.valkey_cluster import shared_cluster
from support.working import Place

PARTS = ["submit", "claim + complete", "wake-up"]


async def left(ff: Ff) -> tuple[object, object]:
    """What can be seen of a measurement afterwards, apart from the name of its lane."""
    runs = [run for run in await ff.json("ps") if run["execution_kind"].startswith("ff-bench")]
    return runs, await ff.json("workers")


async def test_a_store_is_measured_and_left_as_it_was(place: Place, ff: Ff) -> None:
    mine = await place.submit("mine", {"name": "x"})
    found = await ff.json("bench", "--tasks", "40", "--concurrency", "4", "--seconds", "20")
    assert [each["name"] for each in found["measures"]] == PARTS
    assert [each["count"] for each in found["measures"]] == [40, 40, 50]
    for each in found["measures"]:
        assert 0 < each["p50_ms"] <= each["p99_ms"], each
        assert bool(each["per_second"]) == (each["name"] != "wake-up")
    (run,) = await ff.json("ps", "--lane", "default")
    assert (run["execution_id"], run["public_state"]) == (mine, "waiting")
    if place.name == "http":  # the server's engine removes what has ended when its two seconds are over
        assert {run["public_state"] for run in await ff.json("ps", "--lane", "ff-bench")} <= {"completed"}
        assert await ff.json("workers") == []
    else:
        assert await left(ff) == ([], [])


@pytest.mark.parametrize("store", chosen(("valkey-cluster",)))
async def test_a_cluster_is_measured(store: str) -> None:
    cluster = shared_cluster()
    cluster.empty()
    ff = Ff(cluster.url)
    ended = await ff("bench", "--tasks", "20", "--seconds", "20")
    assert ended.code == 0, ended
    lines = ended.out.splitlines()
    assert lines[0] == f"{cluster.url}, 16 calls at once, 100 bytes each"
    assert [line[: len(name)] for line, name in zip(lines[2:], PARTS, strict=True)] == PARTS
    assert await left(ff) == ([], [])


async def test_it_ends_in_time(backend: Backend) -> None:
    ff = Ff(backend.url())
    ended = await ff("bench", "--tasks", "1000000", "--seconds", "0.5")
    assert ended.code == 0, ended
    assert "the time ran out before everything was done" in ended.out
    assert await left(ff) == ([], [])


@pytest.mark.parametrize("option", ["--tasks", "--concurrency", "--seconds"])
async def test_nonsense_is_refused(option: str, backend: Backend) -> None:
    ended = await Ff(backend.url())("bench", option, "0")
    assert (ended.code, option[2:] in ended.err) == (2, True), ended


async def test_a_terminal_shows_how_far_it_is_and_ctrl_c_cleans_up(backend: Backend) -> None:
    ff = Ff(backend.url())
    command = [sys.executable, "-m", "flowfabric.cli", "bench", "--tasks", "1000000", "--seconds", "1000"]
    environ = {**ff.environ, "NO_COLOR": "1"}
    async with on_terminal(*command, folder=os.curdir, environ=environ) as (process, terminal):
        await terminal.until(r"submitting \[\.+\] \d+/1000000")
        await terminal.until(r"submitting \[\.+\] [1-9]\d*/1000000")
        terminal.type(INTERRUPT)
        await terminal.until("cleaning up")
        await terminal.end()
        assert await process.wait() in {130, -signal.SIGINT}
    assert "Traceback" not in terminal.shown
    assert await left(ff) == ([], [])
