"""`python -m bench run SCENARIO` and `python -m bench report`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import msgspec

from bench import http, idle, memory, s1
from bench.settings import Report, Settings

RESULTS = Path(__file__).parent / "results"
SCENARIOS = {"s1": s1.run, "memory": memory.run, "idle": idle.run, "http": http.run}


def main() -> None:
    """Run a scenario, or show what earlier runs found."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run one scenario")
    run.add_argument("scenario", choices=sorted(SCENARIOS))
    run.add_argument("--store", choices=["sqlite"], default="sqlite")
    for name in ("tasks", "payload", "slots", "processes", "runs"):
        run.add_argument(f"--{name}", type=int, default=getattr(Settings(), name))
    run.add_argument("--synchronous", choices=["NORMAL", "FULL"], default="NORMAL")
    run.add_argument("--claims", choices=["single", "shared"], default="single")
    run.add_argument("--json", type=Path, help="write the report there too")
    commands.add_parser("report", help="show all kept results as a table")
    arguments = vars(parser.parse_args())
    if arguments["command"] == "report":
        show()
        return
    settings = msgspec.convert(
        {k: v for k, v in arguments.items() if k in Settings.__struct_fields__}, Settings
    )
    report = {
        "scenario": arguments["scenario"], "store": settings.store, "settings": msgspec.to_builtins(settings),
        **SCENARIOS[arguments["scenario"]](settings),
    }  # fmt: skip
    keep(report, arguments["json"])


def keep(report: Report, path: Path | None) -> None:
    """Print a report and keep it for the table."""
    text = json.dumps(report, indent=2)
    settings = report["settings"]
    print(text)
    RESULTS.mkdir(exist_ok=True)
    for target in (
        RESULTS / f"{report['scenario']}_{report['store']}_{settings['processes']}_{settings['claims']}.json",
        path,
    ):
        if target is not None:
            target.write_text(text + "\n", encoding="utf-8")


def show() -> None:
    """Print a table of the results that were kept."""
    reports: list[dict[str, Any]] = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))
    ]
    columns = (
        "scenario", "store", "claims", "submit_per_s", "drain_per_s", "end_to_end_per_s", "ceiling_drain_per_s",
        "ratio",
        "idle_p50_ms", "idle_p99_ms", "rss_mb",
    )  # fmt: skip
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for report in reports:
        print(
            "| "
            + " | ".join(str(report.get(column, report["settings"].get(column, ""))) for column in columns)
            + " |"
        )


if __name__ == "__main__":
    main()
