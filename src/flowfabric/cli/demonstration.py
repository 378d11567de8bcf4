"""`ff demo`: how it is started."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from flowfabric.server.variables import BadSetting


def add(commands: Any) -> None:
    """Describe the commands."""
    show = commands.add_parser("demo", help="watch a worker die and its work go on")
    show.add_argument("--path", default="", help="file or URL of the store (default: a temporary file)")
    show.add_argument("--serve", action="store_true", help="serve it over HTTP, too, until you press Ctrl-C")
    show.add_argument("--listen", metavar="HOST:PORT", default="", help="with --serve: where to listen")
    show.set_defaults(run=_demo)
    worker = commands.add_parser("demo-worker")
    worker.add_argument("--path", required=True)
    worker.add_argument("--name", required=True)
    worker.set_defaults(run=_demo_worker)


def _demo(given: argparse.Namespace) -> int:
    from flowfabric.cli import demo  # noqa: PLC0415 - each command loads what it needs

    try:
        return asyncio.run(demo.show(given.path, serve=given.serve, listen=given.listen))
    except KeyboardInterrupt:
        if given.serve:  # the way to end it
            return 0
        raise
    except (OSError, BadSetting) as error:
        print(f"ff: {error}", file=sys.stderr)
        return 1


def _demo_worker(given: argparse.Namespace) -> int:
    from flowfabric.cli import demo_worker  # noqa: PLC0415 - each command loads what it needs

    return asyncio.run(demo_worker.work(given.path, given.name))
