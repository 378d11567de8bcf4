"""`ff worker`: run the tasks of an app."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import threading
from typing import Any

from flowfabric.cli.support.load_app import APP_HELP, APP_METAVAR, load_app
from flowfabric.logs import configure


def add(commands: Any) -> None:
    """Add the parser of `ff worker`."""
    about = "run the tasks of an app until SIGTERM or Ctrl-C"
    parser = commands.add_parser("worker", help=about, description=about)
    parser.add_argument("app", metavar=APP_METAVAR, help=APP_HELP)
    parser.add_argument(
        "--store",
        metavar="URL",
        default="",
        help="the store, if the app names none (default: FF_STORE)",
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
    parser.add_argument("--name", default="", help="the worker's name in lists and histories")
    parser.add_argument(
        "--grace",
        default="10s",
        metavar="DURATION",
        help="how long running tasks may take to finish at the end (default: 10s)",
    )
    parser.add_argument(
        "--lease",
        default="30s",
        metavar="DURATION",
        help="how long after a worker's death others take its work (default: 30s)",
    )
    parser.add_argument(
        "--no-engine", action="store_true", help="leave timers and retries to other processes"
    )
    parser.add_argument("--log-level", default="info", help="debug, info, warning or error (default: info)")
    parser.add_argument("--json", action="store_true", help="write the log as JSON, one object per line")
    parser.add_argument("--while-read", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(run=work)


def work(given: argparse.Namespace) -> int:
    """Run a worker until a signal stops it."""
    configure("json" if given.json else "text", given.log_level)
    if given.store:
        os.environ["FF_STORE"] = given.store
    app = load_app(given.app)
    if given.while_read:
        threading.Thread(target=_stop_at_end_of_input, daemon=True).start()
    asyncio.run(
        app.worker(
            lanes=given.lane,
            concurrency=given.concurrency,
            capabilities=given.capability,
            worker_id=given.name,
            grace=given.grace,
            lease_ttl=given.lease,
            engine=False if given.no_engine else None,
        ).run()
    )
    return 0


def _stop_at_end_of_input() -> None:
    """Stop this process when its parent ends, in whatever way: that closes standard input."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)
