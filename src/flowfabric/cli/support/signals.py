"""Options and output that `ff signal` and `ff approve` share."""

from __future__ import annotations

import argparse
from typing import Any

from flowfabric.cli.support.session import CommandSession
from flowfabric.cli.support.task_arguments import parse_value


def add_signal_options(parser: argparse.ArgumentParser, by: str) -> None:
    """Add `--as`, `--payload` and `--within`."""
    parser.add_argument("--as", "--by", dest="by", metavar="NAME", default="", help=by)
    parser.add_argument("--payload", metavar="JSON", help="what the signal carries: JSON, or else text")
    parser.add_argument(
        "--within",
        metavar="DURATION",
        default="0s",
        help="how long to wait until the execution waits for it (default: 0s)",
    )


def read_payload(session: CommandSession) -> Any:
    """Return the value of `--payload`, or None."""
    return None if session.given.payload is None else parse_value(session.given.payload)


def report_sent(session: CommandSession, execution_id: str, name: str) -> None:
    """Report that a signal was accepted."""
    session.report(
        {"execution_id": execution_id, "signal_name": name, "accepted": True},
        f"{name} sent to {execution_id}",
    )
