"""`ff dev`: run a server and a worker, and show what happens, in one terminal."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from flowfabric.cli.support.load_app import APP_HELP, APP_METAVAR


def add(commands: Any) -> None:
    """Add the parser of `ff dev`."""
    about = "run a server and a worker that restarts when code changes, and show what happens"
    parser = commands.add_parser("dev", help=about, description=about)
    parser.add_argument("app", metavar=APP_METAVAR, help=APP_HELP)
    parser.add_argument(
        "--store",
        metavar="URL",
        default="",
        help="path or URL of the store (default: FF_STORE, else a file in your data folder)",
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
        help="print events as JSON, one document per line; everything else goes to standard error",
    )
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Run until Ctrl-C, which is no error here."""
    from flowfabric.cli.dev.run import DevOptions, run_dev  # noqa: PLC0415 - imports what only `ff dev` needs

    try:
        return asyncio.run(
            run_dev(DevOptions(given.app, given.store, given.listen, given.submit, given.json))
        )
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 0
