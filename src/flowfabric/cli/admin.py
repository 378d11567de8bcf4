"""`ff admin`: what is asked of a deployment, or done to it, without its server."""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from flowfabric.cli import repair
from flowfabric.cli.screen import Screen
from flowfabric.model.ids import partition_of
from flowfabric.server.variables import BadSetting, value_of

WATCH_PERCENT: Final = 5.0
ELEVATED_PERCENT: Final = 15.0
BAD_INPUT: Final = 2
READ: Final = ("FF_LANES", "FF_FLOW_PARTITIONS", "FF_BUDGET_PARTITIONS", "FF_QUOTA_PARTITIONS")
HINTS: Final = (
    "Remediation:",
    "  1. rename one of the colliding lanes",
    "  2. raise FF_FLOW_PARTITIONS, which needs a store without data",
    "  3. use a partitioner of your own when you embed the engine",
)


def add(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser("admin", help="look at a deployment")
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    collisions = actions.add_parser("partition-collisions", help="lanes that share a partition")
    collisions.add_argument("--json", action="store_true", help="print JSON instead of text")
    collisions.set_defaults(run=partition_collisions)
    repair.add(actions)


def partition_collisions(given: argparse.Namespace) -> int:
    """Report lanes that share a partition, from the environment alone."""
    try:
        lanes, flow, *_others = (value_of(name, os.environ) for name in READ)
    except BadSetting as error:
        print(f"ff: {error}", file=sys.stderr)
        return BAD_INPUT
    if given.json:
        Screen().json(document(lanes, flow))
    else:
        print("\n".join(report(lanes, flow)))
    return 0


def _homes(lanes: Sequence[str], count: int) -> tuple[dict[int, list[str]], int]:
    """Return the lanes of each partition, and how many of them share one."""
    homes: dict[int, list[str]] = defaultdict(list)
    for lane in sorted(lanes):
        homes[partition_of(lane.encode(), count)].append(lane)
    return homes, sum(len(group) for group in homes.values() if len(group) > 1)


def document(lanes: Sequence[str], count: int) -> dict[str, Any]:
    """Make the report for programs."""
    homes, colliding = _homes(lanes, count)
    return {
        "partitions": count,
        "lanes": len(lanes),
        "colliding": colliding,
        "severity": severity(100 * colliding / len(lanes)),
        "homes": [{"partition": each, "lanes": homes[each]} for each in sorted(homes)],
    }


def report(lanes: Sequence[str], count: int) -> list[str]:
    """Write the report, line by line."""
    homes, colliding = _homes(lanes, count)
    percent = 100 * colliding / len(lanes)
    lines = [
        f"partition count: {count}",
        f"lanes configured: {len(lanes)}",
        f"lanes colliding: {colliding} ({percent:.1f}%)",
        f"severity: {severity(percent)}",
        "",
        "partition | lane | collides_with",
    ]
    for partition in sorted(homes):
        group = homes[partition]
        lines += [
            f"{partition} | {lane} | {', '.join(other for other in group if other != lane) or '-'}"
            for lane in group
        ]
    return [*lines, "", *HINTS] if colliding else lines


def severity(percent: float) -> str:
    """Name how bad a share of colliding lanes is."""
    if not percent:
        return "Clean"
    if percent < WATCH_PERCENT:
        return "Watch"
    return "Elevated" if percent <= ELEVATED_PERCENT else "Remediate"
