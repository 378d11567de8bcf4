"""The command line: `run`, `peers` and `report`; bench/README.md explains every option."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from bench import http, idle, memory, operations, s1, s2, s3, s5
from bench.peers.catalogue import PEERS
from bench.peers.s1 import run as beside
from bench.reports import keep, show
from bench.settings import Scenario, Settings

_ROUNDS: Final = {"tasks": 1_000}
_HOLDERS: Final = {"slots": 100, "seconds": 20.0}


def _everywhere(own: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {"sqlite": own, "valkey": own, "cluster": own}


SCENARIOS: Final = {
    "s1": Scenario(s1.run, _everywhere({})),
    "s2": Scenario(s2.run, _everywhere(_ROUNDS)),
    "s3": Scenario(s3.run, _everywhere(_HOLDERS)),
    "s5": Scenario(s5.run, _everywhere({})),
    "operations": Scenario(operations.run, {"valkey": _ROUNDS, "cluster": _ROUNDS}),
    "memory": Scenario(memory.run, {"sqlite": {"tasks": 100_000}, "valkey": {}, "cluster": {}}),
    "idle": Scenario(idle.run, _everywhere({})),
    "http": Scenario(http.run, _everywhere({})),
}
BESIDE: Final = {"valkey": {"tasks": 5_000, "processes": 2}}


def parser() -> argparse.ArgumentParser:
    """Build the parser; an option that is not given takes the scenario's default."""
    top = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    for name in ("tasks", "payload", "slots", "processes", "runs"):
        shared.add_argument(f"--{name}", type=int)
    shared.add_argument("--aof", choices=["no", "everysec", "always"])
    shared.add_argument("--json", type=Path, help="write the report there too")
    run = commands.add_parser("run", parents=[shared], help="run one scenario")
    run.add_argument("scenario", choices=sorted(SCENARIOS))
    run.add_argument("--store", choices=["sqlite", "valkey", "cluster"])
    run.add_argument("--seconds", type=float)
    run.add_argument("--synchronous", choices=["NORMAL", "FULL"])
    run.add_argument("--claims", choices=["single", "shared"])
    run.add_argument("--prefetch", type=int)
    run.add_argument("--face", choices=["app"])
    peers = commands.add_parser("peers", parents=[shared], help="run other task queues beside ours")
    peers.add_argument("scenario", choices=["s1"])
    peers.add_argument("--only", choices=sorted(PEERS), action="append", default=[])
    peers.add_argument("--limit", type=float)
    commands.add_parser("report", help="show all kept results as a table")
    return top


def settings_of(scenario: Scenario, given: Mapping[str, Any]) -> Settings:
    """Combine the given options with the scenario's defaults; raise ValueError if they do not fit."""
    asked = {
        name: value
        for name, value in given.items()
        if name in Settings.__struct_fields__ and value is not None
    }
    store = asked.get("store") or next(iter(scenario.stores))
    if store not in scenario.stores:
        raise ValueError(f"this scenario runs on {', '.join(scenario.stores)}, not on {store}")
    if asked.get("face"):
        if scenario.run is not s1.run or asked.get("processes", 1) > 1:
            raise ValueError("--face is an option of s1 in one process")
        asked = {"claims": "shared", **asked}  # that is what a worker does
    return msgspec.convert({"store": store, **scenario.stores[store], **asked}, Settings)


def main() -> None:
    """Run a scenario, or show the saved reports."""
    commands = parser()
    given = vars(commands.parse_args())
    if given["command"] == "report":
        show()
        return
    if given["command"] == "peers":
        name, scenario = "peers", Scenario(lambda asked: beside(asked, given["only"]), BESIDE)
    else:
        name, scenario = given["scenario"], SCENARIOS[given["scenario"]]
    try:
        settings = settings_of(scenario, given)
    except ValueError as error:
        commands.error(str(error))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers and workers that were started end too
    about = {"scenario": name, "store": settings.store, "settings": msgspec.to_builtins(settings)}
    keep({**about, **scenario.run(settings)}, given["json"])


if __name__ == "__main__":
    main()
