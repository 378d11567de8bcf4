"""`ff doctor`: look at a store and its server, and say what to change."""

from __future__ import annotations

import argparse
import asyncio
import platform
import sys
import time
from typing import Any, Final

import flowfabric
from flowfabric.cli.desk import add_options, open_named
from flowfabric.cli.exits import Exit, Refused, code_of, sentence
from flowfabric.cli.findings import COLOURS, Finding, Verdict, judged
from flowfabric.cli.formats import sqlite_format
from flowfabric.cli.listing import every_lane, every_worker
from flowfabric.cli.notes import queues_of
from flowfabric.cli.screen import Screen
from flowfabric.model.errors import FlowFabricError, NotOffered
from flowfabric.model.operations.access_secret import ListKids
from flowfabric.model.operations.read_list import CountExecutions, ListExecutions
from flowfabric.model.operations.worker_serving import NO_WORKER_FOR_KIND
from flowfabric.model.records import Worker
from flowfabric.model.state import Public
from flowfabric.storage.base import Commands
from flowfabric.storage.resolve import EMBEDDED, MEMORY, family, store_url, without_password

ABOUT: Final = "look at a store: versions, settings, clocks, idle load; say what to change"
SLOW_MS: Final = 50.0
NAMED: Final = 10
"""How many kinds are named."""
LOOKED_AT: Final = 200
"""At how much of what waits longest."""


def add(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser("doctor", help=ABOUT, description=ABOUT)
    add_options(parser)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Look, tell, and end with 1 when something must be changed."""
    found = asyncio.run(examine(store_url(given.store)))
    screen = Screen()
    if given.json:
        screen.json(found)
    else:
        for each in found:
            remedy = f"; {each.remedy}" if each.remedy else ""
            screen.line(
                f"{screen.paint(f'{each.verdict:<6}', COLOURS[each.verdict])}  {each.name}: {each.value}{remedy}"
            )
    return Exit.REFUSED if any(each.verdict is Verdict.CHANGE for each in found) else Exit.OK


async def examine(url: str) -> list[Finding]:
    """Look at everything."""
    found = [
        Finding("flowfabric", flowfabric.__version__),
        Finding("python", f"{platform.python_version()} on {sys.platform}"),
        Finding("store", without_password(url)),
    ]
    old = _outdated(url)
    if old is not None:  # opening it would bring it up to date, and who asks changes nothing
        return [*found, old]
    try:
        store = await open_named(url)
    except FlowFabricError as error:
        if code_of(error) != Exit.UNREACHABLE:
            raise
        return [*found, Finding("opens", "no", Verdict.CHANGE, sentence(error))]
    except Refused as error:
        return [*found, Finding("opens", "no", Verdict.CHANGE, str(error))]
    try:
        found += await _common(store)
        found += await _own(url, store)
    finally:
        await store.close()
    return found


def _outdated(url: str) -> Finding | None:
    if family(url) != EMBEDDED or MEMORY in url:
        return None
    version, newest = sqlite_format(url)
    if version == 0 or version >= newest:  # new, up to date, or from the future, which opening explains
        return None
    return Finding(
        "format", f"{version}, wanted {newest}", Verdict.CHANGE, "`ff migrate` brings it up to date"
    )


async def _common(store: Commands) -> list[Finding]:
    """What can be asked of every store."""
    started = time.monotonic()
    waiting = dict(await store.read(CountExecutions())).get(Public.WAITING, 0)
    took = (time.monotonic() - started) * 1_000
    lanes, workers = await every_lane(store), await every_worker(store)
    counts = store.partitions
    paused = [lane.lane_id for lane in lanes if lane.paused_at]
    idle = bool(waiting and not workers)
    return [
        judged(
            "answers", f"in {took:.1f} ms", good=took < SLOW_MS, verdict=Verdict.NOTE,
            remedy="is it far away, or busy?",
        ),
        Finding("partitions", f"{counts.flow} flow, {counts.budget} budget, {counts.quota} quota"),
        judged(
            "workers", f"{len(workers)} alive{_takes(workers)}, {waiting} executions wait", good=not idle,
            verdict=Verdict.NOTE,
            remedy="nobody takes them: start one with `ff worker MODULE:APP`",
        ),
        *(await _untaken(store) if workers else []),
        judged(
            "lanes", f"{len(lanes)}, {len(paused)} paused", good=not paused, verdict=Verdict.NOTE,
            remedy=f"`ff unpause --lane {next(iter(paused), '')}` lets work go on",
        ),
    ]  # fmt: skip


def _takes(workers: list[Worker]) -> str:
    if not workers:
        return ""
    names = sorted({kind for worker in workers for kind in worker.kinds})
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    anything = ["any kind"] if any(not worker.kinds for worker in workers) else []
    return f" (they take {', '.join(anything + names[:NAMED])}{more})"


async def _untaken(store: Commands) -> list[Finding]:
    """What waits and nobody takes, among what waits longest."""
    question = ListExecutions(states=(Public.WAITING,), newest_first=False, limit=LOOKED_AT)
    reasons = await queues_of(store, (await store.read(question)).runs)
    return [
        Finding(
            "kinds",
            because.detail,
            Verdict.NOTE,
            "start a worker that takes it, or submit it again under the right name",
        )
        for because in reasons.values()
        if because.reason == NO_WORKER_FOR_KIND
    ]


async def _own(url: str, store: Commands) -> list[Finding]:
    """What only a store of this kind can be asked."""
    kind = family(url)
    if kind in {"http", "https"}:
        from flowfabric.cli import doctor_server  # noqa: PLC0415 - each loads what it needs

        return await doctor_server.examine(url)
    found = await _secret(store)
    if kind == "valkey":
        from flowfabric.cli import doctor_valkey  # noqa: PLC0415

        return found + await doctor_valkey.examine(store)
    from flowfabric.cli import doctor_sqlite  # noqa: PLC0415

    return found + await asyncio.to_thread(doctor_sqlite.examine, url)


async def _secret(store: Commands) -> list[Finding]:
    try:
        kid = (await store.read(ListKids())).current_kid
    except NotOffered:
        return []
    return [
        judged(
            "waitpoint secret", f"there, key {kid}" if kid else "none yet", good=kid is not None,
            verdict=Verdict.NOTE, remedy="the first server or worker that opens the store makes one",
        )
    ]  # fmt: skip
