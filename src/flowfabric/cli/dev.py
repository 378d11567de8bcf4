"""`ff dev`: a server, a worker that is started anew when code changes, and what happens, in one terminal."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from flowfabric.cli.loading import HELP, METAVAR


def add(commands: Any) -> None:
    """Describe the command."""
    about = "a server, a worker that is started anew when code changes, and what happens, in one terminal"
    parser = commands.add_parser("dev", help=about, description=about)
    parser.add_argument("app", metavar=METAVAR, help=HELP)
    parser.add_argument(
        "--store",
        metavar="URL",
        default="",
        help="path or URL of the store (default: FF_STORE, else a file of yours)",
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default="",
        help="where to listen (default: FF_LISTEN_ADDR, else 127.0.0.1:9090)",
    )
    parser.add_argument(
        "--submit",
        metavar="'KIND NAME=VALUE …'",
        default="",
        help="submit this at the start, as `ff submit` does",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print what happens as JSON, one document on each line; the rest goes to standard error",
    )
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Run until Ctrl-C, which is the way to end it."""
    from flowfabric.cli.developing import Asked, develop  # noqa: PLC0415 - what serves loads only to serve

    try:
        return asyncio.run(develop(Asked(given.app, given.store, given.listen, given.submit, given.json)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 0
