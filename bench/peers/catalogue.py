"""The peers: what to install, and how to start their workers with the same number of slots as ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

APPS: Final = "bench.peers.apps"


class Peer(NamedTuple):
    """One other task queue."""

    requirements: tuple[str, ...]
    workers: Callable[[int, int], list[list[str]]]
    """Returns the commands that start its workers: `(processes, slots) -> commands`."""
    setup: str


def _taskiq(processes: int, slots: int) -> list[list[str]]:
    return [
        [
            "taskiq",
            "worker",
            f"{APPS}.taskiq:broker",
            "--workers",
            str(processes),
            "--max-async-tasks",
            str(slots // processes),
            "--log-level",
            "ERROR",
        ]
    ]


def _huey(_: int, slots: int) -> list[list[str]]:
    return [["huey_consumer", f"{APPS}.huey.queue", "-k", "process", "-w", str(slots), "-n", "-q"]]


def _saq(processes: int, _: int) -> list[list[str]]:
    return [["saq", f"{APPS}.saq.settings", "--workers", str(processes), "--quiet"]]


def _arq(processes: int, _: int) -> list[list[str]]:
    return [["arq", f"{APPS}.arq.WorkerSettings"] for _ in range(processes)]


def _celery(processes: int, slots: int) -> list[list[str]]:
    return [
        [
            "celery",
            "-A",
            f"{APPS}.celery",
            "worker",
            "-n",
            f"n{node}@bench",
            "-P",
            "prefork",
            "-c",
            str(slots // processes),
            "-l",
            "ERROR",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
        ]
        for node in range(processes)
    ]


PEERS: Final = {
    "taskiq": Peer(
        ("taskiq", "taskiq-redis", "hiredis", "uvloop"), _taskiq, "streams with acknowledgements, no results"
    ),
    "huey": Peer(("huey", "redis", "hiredis"), _huey, "blocking pops, no results, one process for each slot"),
    "saq": Peer(
        ("saq[redis]", "hiredis", "typing-extensions", "uvloop"),
        _saq,
        "results kept for a while, its default",
    ),
    "arq": Peer(("arq", "hiredis", "uvloop"), _arq, "no results, polls every 10 ms"),
    "celery": Peer(("celery[redis]", "hiredis"), _celery, "prefork, no results or events, prefetch 64"),
}
