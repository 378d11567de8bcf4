"""What `ff` understands, and who does it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

import flowfabric
from flowfabric.cli import demo, demo_worker
from flowfabric.model.errors import FlowFabricError


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ff", description="Durable execution for Python.")
    parser.add_argument("--version", action="version", version=f"flowfabric {flowfabric.__version__}")
    # Commands without a help text are ours alone; they stay out of the list.
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    show = commands.add_parser("demo", help="watch a worker die and its work go on")
    show.add_argument("--path", default="", help="keep the database in this file (default: a temporary one)")
    worker = commands.add_parser("demo-worker")
    worker.add_argument("--path", required=True)
    worker.add_argument("--name", required=True)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    given = _parser().parse_args(argv)
    try:
        if given.command == "demo-worker":
            return asyncio.run(demo_worker.work(given.path, given.name))
        return asyncio.run(demo.show(given.path))
    except FlowFabricError as error:
        print(f"ff: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
