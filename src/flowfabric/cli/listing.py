"""`ff ps`, `ff lanes`, `ff workers`, `ff waitpoints`: what there is."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any, Final

import msgspec

from flowfabric.cli.desk import Desk, command, short_id
from flowfabric.cli.notes import kinds, note, queues_of, remarks
from flowfabric.cli.screen import CLEAR, Picture, printable, printable_lines
from flowfabric.model import checks
from flowfabric.model.errors import invalid
from flowfabric.model.operations.lane import LaneView, ListLanes
from flowfabric.model.operations.read_list import ListExecutions
from flowfabric.model.operations.signal import ReadInbox
from flowfabric.model.operations.suspend_waitpoint import WaitpointView
from flowfabric.model.operations.worker import ListWorkers
from flowfabric.model.records import Execution, Worker
from flowfabric.model.state import Public
from flowfabric.model.times import since, span
from flowfabric.storage.base import Commands
from flowfabric.wire.views import SummaryView, WaitpointOfDetail
from flowfabric.worker.steps import SLEEPING

LOOK_SECONDS: Final = 1.0
"""How often a live list is drawn although nothing happens, because ages grow."""
PAUSE_SECONDS: Final = 0.2
"""How often at most, when much happens."""


def add(commands: Any) -> None:
    """Describe the commands."""
    parser = command(commands, "ps", "list executions, the newest first", ps)
    parser.add_argument("--live", action="store_true", help="show it anew whenever something happens")
    parser.add_argument("--lane", default="", help="only of this lane")
    parser.add_argument(
        "--state", action="append", default=[], choices=[*map(str, Public), "eligible"], metavar="STATE",
        help=f"only in this state; may be repeated: {', '.join(Public)}, or eligible",
    )  # fmt: skip
    parser.add_argument("--kind", default="", help="only of this kind")
    parser.add_argument(
        "--tag", action="append", default=[], metavar="KEY=VALUE", help="only with this tag; may be repeated"
    )
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="how many at most (default: 50)")
    command(commands, "lanes", "list lanes, and how much is in which state", lanes)
    command(commands, "workers", "list the workers that live now", workers)
    parser = command(
        commands, "waitpoints", "list everything that waits for a signal, the oldest first", waitpoints
    )
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="how many at most (default: 100)")


def tags_of(texts: list[str]) -> tuple[tuple[str, str], ...]:
    """Read `key=value` texts."""
    found: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not key or not separator:
            raise invalid("tag", f"write KEY=VALUE, not {text!r}")
        found[key] = value
    return checks.tags(found)


def _question(given: argparse.Namespace) -> ListExecutions:
    return ListExecutions(
        lane_id=given.lane,
        states=tuple(Public(word) for word in given.state if word != "eligible"),
        eligible="eligible" in given.state,
        execution_kind=given.kind,
        tags=tags_of(given.tag),
        limit=given.limit,
    )


async def ps(desk: Desk) -> int:
    """List executions."""
    question = _question(desk.given)
    if desk.given.live:
        return await _live(desk, question)
    await _show(desk, (await desk.store.read(question)).runs)
    return 0


async def _live(desk: Desk, question: ListExecutions) -> int:
    """Draw the list anew, on a terminal over the one before; a program gets it when it has changed."""
    picture = Picture() if desk.screen.terminal and not desk.json else None
    shown: tuple[Execution, ...] | None = None
    if picture is not None:
        desk.screen.write(CLEAR)
        desk.screen = picture
    async with desk.store.subscribe(["feed"]) as woken:
        while True:
            runs = (await desk.store.read(question)).runs
            if picture is not None:
                picture.line(picture.paint("ff ps --live, Ctrl-C ends it", "dim"))
                await _show(desk, runs)
                picture.draw()
            elif runs != shown:
                await _show(desk, runs)
            shown = runs
            await asyncio.sleep(PAUSE_SECONDS)
            await woken.wait(LOOK_SECONDS)


async def _show(desk: Desk, runs: tuple[Execution, ...]) -> None:
    if desk.json:
        desk.screen.json([SummaryView.of(run) for run in runs])
        return
    now, queues = desk.now(), await queues_of(desk.store, runs)
    desk.screen.table(
        ("id", "kind", "state", "lane", "attempt", "age", "ended", "note"),
        [
            (
                short_id(run.execution_id), run.execution_kind, str(run.public_state), run.lane_id,
                str(run.attempt.index) if run.attempt.index >= 0 else "", since(run.created_at, now),
                since(run.completed_at, now), note(run, queues),
            )
            for run in runs
        ],
    )  # fmt: skip
    for remark in remarks(runs, queues):
        desk.screen.line(remark)


async def lanes(desk: Desk) -> int:
    """List lanes."""
    found = await every_lane(desk.store)
    if desk.json:
        desk.screen.json([msgspec.structs.asdict(view) | {"counts": dict(view.counts)} for view in found])
        return 0
    now = desk.now()
    desk.screen.table(
        ("lane", "waiting", "active", "suspended", "delayed", "ended", "oldest", "paused"),
        [_lane(view, now) for view in found],
    )
    return 0


def _lane(view: LaneView, now: int) -> tuple[str, ...]:
    counts = {str(state): count for state, count in view.counts}
    shown = [str(counts.pop(word, 0)) for word in ("waiting", "active", "suspended", "delayed")]
    ended = sum(counts.get(word, 0) for word in ("completed", "failed", "cancelled", "expired", "skipped"))
    oldest = span(now - view.oldest_waiting_at) if view.oldest_waiting_at else ""
    paused = (view.pause_reason or since(view.paused_at, now)) if view.paused_at else ""
    return (view.lane_id, *shown, str(ended), oldest, paused)


async def workers(desk: Desk) -> int:
    """List workers."""
    found = await every_worker(desk.store)
    if desk.json:
        desk.screen.json([msgspec.structs.asdict(each) | {"kinds": each.kinds or None} for each in found])
        return 0
    now = desk.now()
    desk.screen.table(
        ("worker", "instance", "namespace", "lanes", "kinds", "capabilities", "seen"),
        [
            (
                each.worker_id, each.worker_instance_id, each.namespace, ", ".join(each.lanes),
                kinds(each), ", ".join(each.capabilities), since(each.last_heartbeat_at, now),
            )
            for each in found
        ],
    )  # fmt: skip
    return 0


async def every_lane(store: Commands) -> list[LaneView]:
    """Read all lanes, a page at a time."""
    found: list[LaneView] = []
    while page := await store.read(ListLanes(after=found[-1].lane_id if found else "")):
        found += page
    return found


async def every_worker(store: Commands) -> list[Worker]:
    """Read all workers that live, a page at a time."""
    found: list[Worker] = []
    after = ("", "")
    while page := await store.read(ListWorkers(after=after)):
        found += page
        after = (page[-1].namespace, page[-1].worker_instance_id)
    return found


async def waitpoints(desk: Desk) -> int:
    """List what waits for a signal."""
    found = (await desk.store.read(ReadInbox(limit=desk.given.limit))).waitpoints
    if desk.json:
        desk.screen.json([WaitpointOfDetail.of(view, reason=view.reason_code) for view in found])
        return 0
    show_waitpoints(desk, found)
    return 0


def show_waitpoints(
    desk: Desk, found: tuple[WaitpointView, ...], indent: str = "", *, details: bool = False
) -> None:
    """Write waitpoints as a table, each with its message and, if wanted, with its details below."""
    now = desk.now()
    desk.screen.table(
        ("waitpoint", "execution", "key", "signals", "state", "age", "expires"),
        [
            (
                short_id(view.waitpoint_id), short_id(view.execution_id), view.waitpoint_key,
                ", ".join(view.required_signal_names) or ("none: it sleeps" if view.reason_code == SLEEPING else "any"),
                view.state, since(view.created_at, now),
                since(view.expires_at, now),
            )
            for view in found
        ],
        indent,
        notes=[_note(view, details=details) for view in found],
    )  # fmt: skip


def _note(view: WaitpointView, *, details: bool) -> str:
    """Return what a waitpoint tells whoever is to answer it, safe for a terminal."""
    found: dict[str, Any] = msgspec.json.decode(view.details) if details and view.details else {}
    more = [f"{printable(name)}: {_shown(value)}" for name, value in found.items()]
    return "\n".join(filter(None, [printable_lines(view.message), *more]))


def _shown(value: Any) -> str:
    return printable(value if isinstance(value, str) else msgspec.json.encode(value).decode())
