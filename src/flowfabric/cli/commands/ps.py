"""`ff ps`: list executions."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any, Final

from flowfabric.cli.support.execution_notes import explain_queues, note_of, remarks_on
from flowfabric.cli.support.options import add_limit, parse_tags
from flowfabric.cli.support.output import CLEAR_TERMINAL, LiveOutput
from flowfabric.cli.support.session import CommandSession, add_store_command
from flowfabric.cli.support.text import short_id
from flowfabric.model.operations.read_list import ListExecutions
from flowfabric.model.records import Execution
from flowfabric.model.state import Public
from flowfabric.model.times import since
from flowfabric.wire.views import SummaryView

REDRAW_SECONDS: Final = 1.0
"""How often a live list is redrawn without any event, because the ages in it grow."""
MIN_REDRAW_SECONDS: Final = 0.2
"""The shortest time between two redraws."""


def add(commands: Any) -> None:
    """Add the parser of `ff ps`."""
    parser = add_store_command(commands, "ps", "list executions, newest first", ps)
    parser.add_argument("--live", action="store_true", help="redraw the list whenever something happens")
    parser.add_argument("--lane", default="", help="only this lane")
    parser.add_argument(
        "--state",
        action="append",
        default=[],
        choices=[*map(str, Public), "eligible"],
        metavar="STATE",
        help=f"only this state; may be repeated: {', '.join(Public)}, or eligible",
    )
    parser.add_argument("--kind", default="", help="only this kind")
    parser.add_argument(
        "--tag", action="append", default=[], metavar="KEY=VALUE", help="only with this tag; may be repeated"
    )
    add_limit(parser, 50)


def _question(given: argparse.Namespace) -> ListExecutions:
    return ListExecutions(
        lane_id=given.lane,
        states=tuple(Public(word) for word in given.state if word != "eligible"),
        eligible="eligible" in given.state,
        execution_kind=given.kind,
        tags=parse_tags(given.tag),
        limit=given.limit,
    )


async def ps(session: CommandSession) -> int:
    """List executions, once or, with `--live`, until Ctrl-C."""
    question = _question(session.given)
    if session.given.live:
        return await _redraw(session, question)
    await _show(session, (await session.store.read(question)).runs)
    return 0


async def _redraw(session: CommandSession, question: ListExecutions) -> int:
    """Redraw the list on a terminal; elsewhere, print it whenever it has changed."""
    live = LiveOutput() if session.output.is_terminal and not session.json else None
    shown: tuple[Execution, ...] | None = None
    if live is not None:
        session.output.write(CLEAR_TERMINAL)
        session.output = live
    async with session.store.subscribe(["feed"]) as woken:
        while True:
            runs = (await session.store.read(question)).runs
            if live is not None:
                live.line(live.paint("ff ps --live, Ctrl-C ends it", "dim"))
                await _show(session, runs)
                live.draw()
            elif runs != shown:
                await _show(session, runs)
            shown = runs
            await asyncio.sleep(MIN_REDRAW_SECONDS)
            await woken.wait(REDRAW_SECONDS)


async def _show(session: CommandSession, runs: tuple[Execution, ...]) -> None:
    if session.json:
        session.output.json([SummaryView.of(run) for run in runs])
        return
    now, queues = session.now(), await explain_queues(session.store, runs)
    session.output.table(
        ("id", "kind", "state", "lane", "attempt", "age", "ended", "note"),
        [
            (
                short_id(run.execution_id),
                run.execution_kind,
                str(run.public_state),
                run.lane_id,
                str(run.attempt.index) if run.attempt.index >= 0 else "",
                since(run.created_at, now),
                since(run.completed_at, now),
                note_of(run, queues),
            )
            for run in runs
        ],
    )
    for remark in remarks_on(runs, queues):
        session.output.line(remark)
