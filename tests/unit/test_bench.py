"""The bench measures what it says: every scenario runs on every store that it names, and its tables are right."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as bench
from bench import http, idle, operations, reports, s3
from bench.measures import median, quantile
from bench.peers import drive, environments, ticks
from bench.peers.catalogue import PEERS
from bench.peers.s1 import standing
from bench.places import Place, fresh
from bench.queues import drain, submit_all
from bench.s1 import drain_in_processes, open_queue
from bench.settings import Settings
from bench.work import run_loop

SMALL: dict[str, dict[str, Any]] = {
    "s1": {"tasks": 40, "runs": 1},
    "s2": {"tasks": 3, "runs": 1},
    "s3": {"slots": 4, "seconds": 0.2, "payload": 64},
    "s5": {"tasks": 40, "runs": 1},
    "operations": {"tasks": 2, "runs": 1},
    "memory": {"tasks": 20},
    "idle": {"seconds": 0.1, "slots": 2},
    "http": {"tasks": 100, "runs": 1},
}
PLACES = [(name, store) for name in SMALL for store in bench.SCENARIOS[name].stores]


def small(name: str, store: str, **more: Any) -> Settings:
    return bench.settings_of(bench.SCENARIOS[name], {"store": store, **SMALL[name], **more})


@pytest.mark.parametrize(("name", "store"), PLACES)
def test_a_scenario_runs(name: str, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "TASK_SECONDS", 0.2)
    monkeypatch.setattr(s3, "RENEW_SECONDS", 0.05)
    monkeypatch.setattr(idle, "SETTLE_SECONDS", 0.1)
    monkeypatch.setattr(http, "STATES", 50)
    found = bench.SCENARIOS[name].run(small(name, store))
    expected = {
        "s1": ("ratio", "drain_per_s", "ceiling_drain_per_s", "client_us", "idle_p50_ms"),
        "s2": ("resumed_p50_ms", "round_p99_ms", "client_us"),
        "s3": ("renewals_per_s", "completed"),
        "s5": ("claims_per_s", "wait_p99_ms", "client_us"),
        "memory": ("bytes_finished", "bytes_waiting") if store != "sqlite" else ("rss_mb",),
        "idle": ("cpu_percent",),
        "operations": (),
        "http": ("ratio", "drain_per_s", "client_us", "server_us"),
    }[name]
    assert all(found[number] > 0 for number in expected), found
    assert found.get("lost_leases", 0) == found.get("wrong_claims", 0) == 0
    if name in {"s1", "s2", "s5", "http"}:
        assert (found["valkey_us" if name == "http" else "server_us"] > 0) == (store != "sqlite")
    if name == "operations":
        trips = {row["operation"]: row["round_trips"] for row in found["rows"]}
        assert (trips["claim 32"] == 1) == (
            store == "valkey"
        )  # the partitions of a cluster are asked one by one


@pytest.mark.parametrize("store", bench.SCENARIOS["s1"].stores)
def test_tasks_of_an_app_stand_beside_the_store(store: str) -> None:
    settings = small("s1", store, face="app")
    assert settings.claims == "shared"
    found = bench.SCENARIOS["s1"].run(settings)  # fails unless every run has ended well
    numbers = ("face_ratio", "face_cpu_ratio", "face_submit_ratio", "face_drain_per_s", "face_client_us")
    assert all(found[number] > 0 for number in numbers), found
    assert (found["face_server_us"] > 0) == (store != "sqlite")


def test_a_face_is_refused_where_there_is_none() -> None:
    for scenario, more in (("s2", {}), ("s1", {"processes": 2})):
        with pytest.raises(ValueError, match="--face is an option of s1 in one process"):
            small(scenario, "sqlite", face="app", **more)


@pytest.mark.parametrize("store", ["sqlite", "valkey"])
@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("shape", [{}, {"claims": "shared"}, {"prefetch": 10}], ids=str)
def test_every_shape_drains_everything(store: str, bare: bool, shape: dict[str, Any]) -> None:
    settings = small("s1", store, **shape)

    async def main() -> tuple[int, int]:
        with fresh(settings) as place:
            queue = await open_queue(place, bare=bare)
            await submit_all(queue, settings)
            counts = [await drain(queue, settings, 4, "a"), await drain(queue, settings, 4, "b")]
            await queue.close()
            return counts[0], counts[1]

    assert run_loop(main()) == (40, 0)


def test_processes_share_the_work() -> None:
    settings = small("s1", "valkey", processes=2)

    async def submit(place: Place) -> None:
        queue = await open_queue(place, bare=True)
        await submit_all(queue, settings)
        await queue.close()

    with fresh(settings) as place:
        run_loop(submit(place))
        span = drain_in_processes(place, settings, bare=True)  # fails unless every task was ended once
    assert min(span) > 0


def runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in {"Z", "X"}


def test_workers_of_a_peer_are_counted_and_ended_as_a_group(tmp_path: Path) -> None:
    code = """if True:
        import os, time
        from bench.peers.ticks import tick
        if not os.fork():
            tick()
        tick()
        time.sleep(600)
    """
    surroundings = {**os.environ, "PYTHONPATH": str(environments.ROOT), ticks.FOLDER: str(tmp_path)}
    with drive.workers([["python", "-c", code]], Path(sys.executable).parent, surroundings) as started:
        drive.await_drained(tmp_path, Settings(tasks=3, limit=30), started)
    assert ticks.count(tmp_path) == 3
    assert ticks.span_seconds(tmp_path) > 0
    assert started[0].poll() is not None
    for path in tmp_path.iterdir():
        while runs(
            int(path.name)
        ):  # what was killed goes when the system gets to it; the test's time limit stands
            os.sched_yield()


def test_a_peer_that_gives_up_is_reported(tmp_path: Path) -> None:
    with (
        drive.workers([["python", "-c", ""]], Path(sys.executable).parent, os.environ) as started,
        pytest.raises(drive.Failed, match="ended by itself after 0 of 3 tasks"),
    ):
        drive.await_drained(tmp_path, Settings(tasks=3, limit=30), started)


def test_a_peer_that_cannot_be_installed_is_reported(tmp_path: Path) -> None:
    peer = PEERS["huey"]._replace(requirements=("./there-is-no-such-folder",))
    with pytest.raises(environments.NotInstalled, match="there-is-no-such-folder"):
        environments.environment("huey", peer, tmp_path)
    assert not (tmp_path / "huey" / "installed.txt").exists()


def test_a_peer_has_the_slots_and_processes_that_ours_has() -> None:
    for name, peer in PEERS.items():
        commands = peer.workers(2, 16)
        assert (environments.ROOT / "bench" / "peers" / "apps" / f"{name}.py").exists()
        if name in {"arq", "celery"}:
            assert len(commands) == 2
    assert PEERS["taskiq"].workers(2, 16)[0][-3:-1] == ["8", "--log-level"]


def test_the_best_peer_is_what_we_are_compared_with() -> None:
    rows: list[dict[str, Any]] = [
        {"system": "flowfabric", "drain_per_s": 4_000},
        {"system": "bare ceiling", "drain_per_s": 9_000},
        {"system": "huey", "drain_per_s": 3_200},
        {"system": "arq", "drain_per_s": 800},
        {"system": "celery", "drain_per_s": "", "note": "not installed"},
    ]
    assert standing(rows) == {"best_peer": "huey", "ahead": 1.25}


def test_quantiles() -> None:
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert quantile(list(range(100)), 0.99) == 99
    assert quantile([7], 0.99) == 7


def test_of_several_runs_the_lowest_counts() -> None:
    noisy = operations.Row("claim 1", 9, 1, 20, 50, 60, 900, 950, 80)
    quiet = operations.Row("claim 1", 9, 1, 20, 55, 58, 70, 99, 81)
    assert operations.quietest([[noisy], [quiet]]) == [
        operations.Row("claim 1", 9, 1, 20, 50, 58, 70, 99, 80)
    ]


def test_only_what_clients_send_is_counted() -> None:
    assert idle.sent_command('+1.5 [0 127.0.0.1:4711] "FCALL" "ff_claim" "1" "x"\r\n') == "FCALL ff_claim"
    assert idle.sent_command('+1.5 [0 127.0.0.1:4711] "TIME"\r\n') == "TIME"
    assert idle.sent_command('+1.5 [0 lua] "ZADD" "ff:due" "1" "x"\r\n') is None


def test_a_scenario_knows_its_stores() -> None:
    with pytest.raises(ValueError, match="runs on valkey, cluster, not on sqlite"):
        small("operations", "sqlite")
    assert small("s3", "valkey", slots=None).slots == 100


def test_every_option_is_explained() -> None:
    text = (Path(bench.__file__).parent / "README.md").read_text(encoding="utf-8")
    (commands,) = (each for each in bench.parser()._actions if isinstance(each, argparse._SubParsersAction))
    for name, command in commands.choices.items():
        assert f"python -m bench {name}" in text
        for action in command._actions:
            for option in action.option_strings:
                assert option in {"-h", "--help"} or f"`{option}`" in text, option
    assert all(f"`{name}`" in text for name in bench.SCENARIOS)


def test_reports_are_kept_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reports, "RESULTS", tmp_path)
    for aof in ("no", "everysec"):
        settings = {field: getattr(Settings(aof=aof), field) for field in Settings.__struct_fields__}
        reports.keep({"scenario": "s1", "store": "valkey", "settings": settings, "ratio": 0.5}, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "s1_valkey.json",
        "s1_valkey_aof=everysec.json",
    ]
    assert json.loads((tmp_path / "s1_valkey.json").read_text(encoding="utf-8"))["ratio"] == 0.5
    capsys.readouterr()
    reports.show()
    assert "| valkey | aof=everysec | 0.5 |" in capsys.readouterr().out
