"""`ff worker`: run the tasks of an app until a signal ends it."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import threading
from typing import Any

from flowfabric.cli.loading import HELP, METAVAR, load
from flowfabric.server.observe.logs import configure


def add(commands: Any) -> None:
    """Describe the command."""
    about = "run the tasks of an app until SIGTERM or Ctrl-C"
    parser = commands.add_parser("worker", help=about, description=about)
    parser.add_argument("app", metavar=METAVAR, help=HELP)
    parser.add_argument(
        "--store",
        metavar="URL",
        default="",
        help="the store of an app that names none itself (default: FF_STORE)",
    )
    parser.add_argument(
        "--lane",
        action="append",
        default=[],
        help="serve this lane; may be repeated (default: those of the tasks)",
    )
    parser.add_argument(
        "--concurrency", type=int, default=16, metavar="N", help="how many tasks run at once (default: 16)"
    )
    parser.add_argument(
        "--capability",
        action="append",
        default=[],
        metavar="NAME",
        help="what this worker can do; may be repeated",
    )
    parser.add_argument("--name", default="", help="what it is called in lists and histories")
    parser.add_argument(
        "--grace",
        default="10s",
        metavar="DURATION",
        help="how long running tasks get at the end (default: 10s)",
    )
    parser.add_argument(
        "--lease",
        default="30s",
        metavar="DURATION",
        help="after which the work of a dead worker is taken by others (default: 30s)",
    )
    parser.add_argument("--no-engine", action="store_true", help="leave timers and retries to others")
    parser.add_argument("--log-level", default="info", help="debug, info, warning or error (default: info)")
    parser.add_argument("--json", action="store_true", help="write the log as JSON, one object on each line")
    parser.add_argument("--while-read", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(run=work)


def work(given: argparse.Namespace) -> int:
    """Work until told to stop."""
    configure("json" if given.json else "text", given.log_level)
    if given.store:
        os.environ["FF_STORE"] = given.store
    app = load(given.app)
    if given.while_read:
        threading.Thread(target=_stop_with_input, daemon=True).start()
    asyncio.run(
        app.worker(
            lanes=given.lane, concurrency=given.concurrency, capabilities=given.capability,
            worker_id=given.name, grace=given.grace, lease_ttl=given.lease, engine=False if given.no_engine else None,
        ).run()
    )  # fmt: skip
    return 0


def _stop_with_input() -> None:
    """Stop as soon as whoever started this worker is gone, however it went."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)
