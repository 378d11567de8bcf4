"""Run one peer: submit everything, then start its workers and wait until they have drained."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.peers import ticks
from bench.peers.catalogue import Peer
from bench.peers.environments import ROOT
from bench.places import folder
from bench.servers import valkey_server
from bench.settings import Settings

LOOK_SECONDS = 0.02
STOP_SECONDS = 10.0


class Failed(Exception):
    """Raised if a peer does not finish its work; the text says what happened."""


class Drained(NamedTuple):
    """Seconds that submitting and draining took."""

    submit: float
    drain: float


def once(name: str, peer: Peer, commands: Path, settings: Settings) -> Drained:
    """Run once on a fresh server."""
    with valkey_server(settings.aof) as address, folder() as counts:
        surroundings = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "FF_BENCH_URL": f"redis://{address}/0",
            "FF_BENCH_SLOTS": str(settings.slots),
            "FF_BENCH_PROCESSES": str(settings.processes),
            "FF_BENCH_PAYLOAD": str(settings.payload),
            ticks.FOLDER: str(counts),
        }
        submitted = submit(name, commands, settings, surroundings)
        with workers(peer.workers(settings.processes, settings.slots), commands, surroundings) as started:
            await_drained(counts, settings, started)
        return Drained(submitted, ticks.span_seconds(counts))


def submit(name: str, commands: Path, settings: Settings, surroundings: Mapping[str, str]) -> float:
    """Submit in the peer's environment; return the seconds that it took."""
    command = [str(commands / "python"), "-m", "bench.peers.submit", name, str(settings.tasks)]
    try:
        done = subprocess.run(
            command, env=surroundings, capture_output=True, text=True, timeout=settings.limit, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(f"submitting took longer than {settings.limit} s") from error
    if done.returncode:
        raise Failed(f"submitting failed: {last_line(done.stderr)}")
    return float(done.stdout.split()[-1])


@contextlib.contextmanager
def workers(
    lines: Sequence[Sequence[str]], commands: Path, surroundings: Mapping[str, str]
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start workers, each as leader of a process group that is ended as a whole."""
    started = [
        subprocess.Popen(
            [str(commands / line[0]), *line[1:]],
            env=surroundings,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for line in lines
    ]
    try:
        yield started
    finally:
        for worker in started:
            end(worker)


def end(worker: subprocess.Popen[bytes]) -> None:
    """Terminate a process group, and kill what is left after a while."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        worker.wait(STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def await_drained(counts: Path, settings: Settings, started: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait until every task has run."""
    end_at = time.monotonic() + settings.limit
    while (done := ticks.count(counts)) < settings.tasks:
        if any(worker.poll() is not None for worker in started):
            raise Failed(f"a worker ended by itself after {done} of {settings.tasks} tasks")
        if time.monotonic() > end_at:
            raise Failed(f"{done} of {settings.tasks} tasks were run in {settings.limit} s")
        time.sleep(LOOK_SECONDS)


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason was given"])[-1]
