"""Reports: printed, kept, and shown together as tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.settings import Report

RESULTS = Path(__file__).parent / "results"
COLUMNS = (
    "scenario", "store", "claims", "submit_per_s", "drain_per_s", "end_to_end_per_s", "ceiling_drain_per_s", "ratio",
    "idle_p50_ms", "idle_p99_ms", "rss_mb",
)  # fmt: skip


def keep(report: Report, path: Path | None) -> None:
    """Print a report and keep it for the tables."""
    text = json.dumps(report, indent=2)
    print(text)
    if "rows" in report:
        print(table(report["rows"]))
    settings = report["settings"]
    name = f"{report['scenario']}_{report['store']}_{settings['processes']}_{settings['claims']}.json"
    RESULTS.mkdir(exist_ok=True)
    for target in (RESULTS / name, path):
        if target is not None:
            target.write_text(text + "\n", encoding="utf-8")


def show() -> None:
    """Print what was kept: one table for all scenarios, and one for each that has rows of its own."""
    reports: list[Report] = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))
    ]
    plain = [report for report in reports if "rows" not in report]
    print(table([{name: r.get(name, r["settings"].get(name, "")) for name in COLUMNS} for r in plain]))
    for report in reports:
        if "rows" in report:
            print(f"\n{report['scenario']} on {report['store']}\n\n{table(report['rows'])}")


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows of the same fields as a table."""
    if not rows:
        return ""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(map(str, row.values())) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
