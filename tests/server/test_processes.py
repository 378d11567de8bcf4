"""Several processes on one port tell the truth together."""

from __future__ import annotations

import os
import signal
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from flowfabric.model.operations.create import Created, CreateExecution
from flowfabric.model.operations.finish import Completed
from flowfabric.model.operations.read import GetExecution
from flowfabric.model.state import Public
from flowfabric.server.observe import sharing
from flowfabric.server.observe.tally import NAMESPACES, Tally
from support.process import Process, started
from support.serving import Backend

pytestmark = [pytest.mark.every_store, pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")]


def scrape(server: Process) -> dict[tuple[str, str], float]:
    """Return every sample by name and route, lane or state, whatever it has."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=20) as reply:
        families = list(text_string_to_metric_families(reply.read().decode()))
    return {
        (sample.name, sample.labels.get("path") or sample.labels.get("lane", "")): sample.value
        for family in families
        for sample in family.samples
        if sample.labels.get("status", "201") == "201" and sample.labels.get("state", "waiting") == "waiting"
    }


@contextmanager
def asleep(pid: int) -> Iterator[None]:
    """Stop a process for a while, so that another one has to answer."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def submitted(server: Process) -> tuple[float, float, float]:
    samples = scrape(server)
    return (
        samples.get(("ff_http_requests_total", "/v1/submit"), 0),
        samples.get(("ff_http_request_duration_seconds_count", "/v1/submit"), 0),
        samples.get(("ff_lane_depth", "default"), 0),
    )


def counted(server: Process, requests: int) -> None:
    """Wait until a request is counted: that is after its answer, and a stopped process counts nothing."""
    deadline = time.monotonic() + 10
    while submitted(server)[:2] != (requests, requests):
        assert time.monotonic() < deadline, submitted(server)


def until_two(server: Process, gone: int = 0) -> list[int]:
    """Wait until two processes serve."""
    deadline = time.monotonic() + 20
    while True:
        living = [pid for pid in server.pids() if pid != gone]
        if len(living) == 2 and all(_serves(server, pid, living) for pid in living):
            return living
        assert time.monotonic() < deadline, server.said()


def _serves(server: Process, pid: int, living: list[int]) -> bool:
    other = next(each for each in living if each != pid)
    with asleep(other):
        try:
            return server.call("GET", "/livez", timeout=0.5)[0] == 200
        except OSError:
            return False


def test_a_scrape_tells_of_all_processes(tmp_path: Path, backend: Backend) -> None:
    with started(tmp_path, "--processes", "2", *backend.flags) as server:
        server.wait_until_ready()
        one, other = until_two(server)
        with asleep(one):
            for _ in range(3):
                server.submit()
            counted(server, 3)
        with asleep(other):
            for _ in range(4):
                server.submit()
            counted(server, 7)
            assert submitted(server) == (7, 7, 7)
            rates = server.call("GET", "/v1/stats")[1]["rates"]
            assert rates["last_minute"]["submitted"] == 7
        with asleep(one):
            assert submitted(server)[:2] == (7, 7)
        os.kill(one, signal.SIGKILL)
        until_two(server, gone=one)
        assert [submitted(server)[:2] for _ in range(4)] == [(7, 7)] * 4, "a death does not take counts along"
        with asleep(other):
            server.submit()
            counted(server, 8)
            assert submitted(server)[:2] == (8, 8), "its successor goes on counting"
        folders = {Path(line.split()[-1]).parent for line in _maps(other) if "flowfabric-metrics-" in line}
        assert server.end() == 0
    assert len(folders) == 1
    assert not folders.pop().exists()


def _maps(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/maps").read_text("utf-8").splitlines()


def test_a_minute_is_counted_in_seconds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = Completed("{fp:0}:0b8f2a52-5f0e-4c41-9a7d-2f1f6f1f9a10", Public.COMPLETED)
    now = 1_000.0
    monkeypatch.setenv(sharing.FOLDER, str(tmp_path))
    monkeypatch.setenv(sharing.PLACE, "0")
    mine = Tally(lambda: now)
    monkeypatch.setenv(sharing.PLACE, "1")
    other = Tally(lambda: now)
    ended = GetExecution(execution_id=done.execution_id)  # any command that names it
    for _ in range(3):
        mine.note(ended, done, "team")
    other.note(ended, done)
    other.note(ended, "something else")
    now += 30
    other.note(ended, done, "team")
    assert other.rates("team")["last_minute"]["completed"] == 4
    assert other.rates("foreign")["last_minute"]["completed"] == 0
    assert other.rates()["last_minute"]["completed"] == 5
    assert other.rates()["completed_per_second"] == round(5 / 30, 3)
    now += 30
    assert other.rates()["last_minute"]["completed"] == 1
    now += 30
    assert other.rates()["last_minute"]["completed"] == 0


def test_namespaces_are_counted_apart_as_long_as_they_are_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(sharing.FOLDER, raising=False)
    now = 1_000.0
    tally = Tally(lambda: now)

    def counted(namespace: str) -> int:
        submitted: int = tally.rates(namespace)["last_minute"]["submitted"]
        return submitted

    def create(number: int, namespace: str) -> None:
        id_ = f"{{fp:0}}:0b8f2a52-5f0e-4c41-9a7d-{number:012}"
        command = CreateExecution(execution_id=id_, execution_kind="k", namespace=namespace)
        tally.note(command, Created(id_, Public.WAITING))
        tally.note(GetExecution(execution_id=id_), Completed(id_, Public.COMPLETED))

    for number in range(NAMESPACES + 1):
        create(number, f"n{number}")
    assert [counted(f"n{number}") for number in range(NAMESPACES)] == [1] * NAMESPACES
    assert tally.rates("n3")["last_minute"]["completed"] == 1
    assert counted(f"n{NAMESPACES}") == 0  # no room, until another has been idle for a minute
    assert counted("") == NAMESPACES + 1
    now += 61
    create(NAMESPACES, f"n{NAMESPACES}")
    assert counted(f"n{NAMESPACES}") == 1
    assert counted("n0") == 0
