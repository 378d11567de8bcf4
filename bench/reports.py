"""Print and save reports, and show them as tables."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.settings import Report, Settings

RESULTS = Path(__file__).parent / "results"
SHAPING = ("slots", "processes", "payload", "synchronous", "aof", "claims", "prefetch", "face")
"""Settings that influence the numbers; one report is saved for each combination."""


def shape_of(settings: Mapping[str, Any]) -> str:
    """Return the settings that differ from the defaults, as text."""
    usual = msgspec.to_builtins(Settings())
    return " ".join(f"{name}={settings[name]}" for name in SHAPING if settings[name] != usual[name])


def keep(report: Report, path: Path | None) -> None:
    """Print a report and save it."""
    text = json.dumps(report, indent=2)
    print(text)
    if "rows" in report:
        print(table(report["rows"]))
    words = (report["scenario"], report["store"], shape_of(report["settings"]))
    name = "_".join(filter(None, words)).replace(" ", "_")
    RESULTS.mkdir(exist_ok=True)
    for target in (RESULTS / f"{name}.json", path):
        if target is not None:
            target.write_text(text + "\n", encoding="utf-8")


def show() -> None:
    """Print all saved reports."""
    paths = sorted(RESULTS.glob("*.json"))
    print(tables([json.loads(path.read_text(encoding="utf-8")) for path in paths]))


def tables(reports: Sequence[Report]) -> str:
    """Write one table per scenario, and one for each report that has rows of its own."""
    found: list[str] = []
    plain: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for report in reports:
        shape = shape_of(report["settings"])
        if "rows" in report:
            found.append(f"{report['scenario']} {report['store']} {shape}\n\n{table(report['rows'])}")
            continue
        numbers = {name: value for name, value in report.items() if isinstance(value, int | float)}
        plain[report["scenario"]].append({"store": report["store"], "settings": shape, **numbers})
    return "\n\n".join([*(f"{name}\n\n{table(rows)}" for name, rows in plain.items()), *found])


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Write rows as a Markdown table; missing values stay empty."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [
        columns,
        ["---"] * len(columns),
        *([str(row.get(name, "")) for name in columns] for row in rows),
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
