"""`ff admin partition-collisions`: report lanes that share a partition."""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from flowfabric.cli.support.output import Output
from flowfabric.cli.support.target import PARTITION_VARIABLES
from flowfabric.model.ids import partition_of
from flowfabric.variables import value_of

WATCH_PERCENT: Final = 5.0
ELEVATED_PERCENT: Final = 15.0
HINTS: Final = (
    "Remediation:",
    "  1. rename one of the colliding lanes",
    "  2. raise FF_FLOW_PARTITIONS, which needs a store without data",
    "  3. use a partitioner of your own when you embed the engine",
)


def add(actions: Any) -> None:
    """Add the parser of `ff admin partition-collisions`."""
    about = "report lanes that share a partition"
    parser = actions.add_parser("partition-collisions", help=about, description=about)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=partition_collisions)


def partition_collisions(given: argparse.Namespace) -> int:
    """Report lanes that share a partition; only the environment is read."""
    lanes, flow, *_ = (value_of(name, os.environ) for name in ("FF_LANES", *PARTITION_VARIABLES))
    if given.json:
        Output().json(document(lanes, flow))
    else:
        print("\n".join(report(lanes, flow)))
    return 0


def _group_lanes(lanes: Sequence[str], count: int) -> tuple[dict[int, list[str]], int]:
    """Return the lanes of each partition, and how many lanes share one."""
    partitions: dict[int, list[str]] = defaultdict(list)
    for lane in sorted(lanes):
        partitions[partition_of(lane.encode(), count)].append(lane)
    return partitions, sum(len(group) for group in partitions.values() if len(group) > 1)


def document(lanes: Sequence[str], count: int) -> dict[str, Any]:
    """Return the report as a JSON document."""
    partitions, colliding = _group_lanes(lanes, count)
    return {
        "partitions": count,
        "lanes": len(lanes),
        "colliding": colliding,
        "severity": severity(100 * colliding / len(lanes)),
        "homes": [{"partition": each, "lanes": partitions[each]} for each in sorted(partitions)],
    }


def report(lanes: Sequence[str], count: int) -> list[str]:
    """Return the report as lines of text."""
    partitions, colliding = _group_lanes(lanes, count)
    percent = 100 * colliding / len(lanes)
    lines = [
        f"partition count: {count}",
        f"lanes configured: {len(lanes)}",
        f"lanes colliding: {colliding} ({percent:.1f}%)",
        f"severity: {severity(percent)}",
        "",
        "partition | lane | collides_with",
    ]
    for partition in sorted(partitions):
        group = partitions[partition]
        lines += [
            f"{partition} | {lane} | {', '.join(other for other in group if other != lane) or '-'}"
            for lane in group
        ]
    return [*lines, "", *HINTS] if colliding else lines


def severity(percent: float) -> str:
    """Return the severity of a percentage of colliding lanes."""
    if not percent:
        return "Clean"
    if percent < WATCH_PERCENT:
        return "Watch"
    return "Elevated" if percent <= ELEVATED_PERCENT else "Remediate"
