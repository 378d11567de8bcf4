"""`python -m bench run SCENARIO` and `python -m bench report`; bench/README.md explains every option."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec

from bench import http, idle, memory, operations, s1
from bench.reports import keep, show
from bench.settings import Scenario, Settings

SCENARIOS = {
    "s1": Scenario(s1.run, ("sqlite",)),
    "memory": Scenario(memory.run, ("sqlite",)),
    "idle": Scenario(idle.run, ("sqlite",)),
    "http": Scenario(http.run, ("sqlite",)),
    "operations": Scenario(operations.run, ("valkey",), tasks=1_000),
}


def parser() -> argparse.ArgumentParser:
    """Every option once; what is not given is the scenario's own."""
    top = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run one scenario")
    run.add_argument("scenario", choices=sorted(SCENARIOS))
    run.add_argument("--store", choices=["sqlite", "valkey"])
    for name in ("tasks", "payload", "slots", "processes", "runs"):
        run.add_argument(f"--{name}", type=int)
    run.add_argument("--synchronous", choices=["NORMAL", "FULL"])
    run.add_argument("--aof", choices=["no", "everysec", "always"])
    run.add_argument("--claims", choices=["single", "shared"])
    run.add_argument("--json", type=Path, help="write the report there too")
    commands.add_parser("report", help="show all kept results as a table")
    return top


def settings_of(scenario: Scenario, given: dict[str, Any]) -> Settings:
    """What was asked for, and the scenario's own words for the rest."""
    own = {"store": scenario.stores[0], "tasks": scenario.tasks}
    asked = {
        name: value
        for name, value in given.items()
        if name in Settings.__struct_fields__ and value is not None
    }
    return msgspec.convert(own | asked, Settings)


def main() -> None:
    """Run a scenario, or show what earlier runs found."""
    commands = parser()
    given = vars(commands.parse_args())
    if given["command"] == "report":
        show()
        return
    scenario = SCENARIOS[given["scenario"]]
    settings = settings_of(scenario, given)
    if settings.store not in scenario.stores:
        commands.error(f"{given['scenario']} runs on {', '.join(scenario.stores)}, not on {settings.store}")
    report = {
        "scenario": given["scenario"], "store": settings.store, "settings": msgspec.to_builtins(settings),
        **scenario.run(settings),
    }  # fmt: skip
    keep(report, given["json"])


if __name__ == "__main__":
    main()
