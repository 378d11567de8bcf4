"""`ff admin`: inspect and repair a deployment without its server."""

from __future__ import annotations

from typing import Any

from flowfabric.cli.commands.admin import partition_collisions, repair


def add(commands: Any) -> None:
    """Add the parser of `ff admin` and of its actions."""
    about = "inspect and repair a deployment"
    parser = commands.add_parser("admin", help=about, description=about)
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    partition_collisions.add(actions)
    repair.add(actions)
