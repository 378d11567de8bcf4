"""Check what every store has: its speed, its partitions, its lanes, its workers and its secret."""

from __future__ import annotations

import time
from typing import Final

from flowfabric.cli.doctor.finding import Finding, Verdict, check
from flowfabric.cli.support.execution_notes import explain_queues
from flowfabric.cli.support.pages import read_lanes, read_workers
from flowfabric.model.errors import NotOffered
from flowfabric.model.operations.access_secret import ListKids
from flowfabric.model.operations.read_list import CountExecutions, ListExecutions
from flowfabric.model.operations.worker_serving import NO_WORKER_FOR_KIND
from flowfabric.model.records import Worker
from flowfabric.model.state import Public
from flowfabric.storage.base import Commands

MAX_ANSWER_MS: Final = 50.0
MAX_KINDS_NAMED: Final = 10
MAX_WAITING_EXAMINED: Final = 200
"""The number of waiting executions, oldest first, that are examined."""


async def check_store(store: Commands) -> list[Finding]:
    """Check an open store or server."""
    started_at = time.monotonic()
    waiting = dict(await store.read(CountExecutions())).get(Public.WAITING, 0)
    answered_ms = (time.monotonic() - started_at) * 1_000
    lanes, workers = await read_lanes(store), await read_workers(store)
    counts = store.partitions
    paused = [lane.lane_id for lane in lanes if lane.paused_at]
    return [
        check(
            "answers",
            f"in {answered_ms:.1f} ms",
            ok=answered_ms < MAX_ANSWER_MS,
            verdict=Verdict.NOTE,
            remedy="is it far away, or busy?",
        ),
        Finding("partitions", f"{counts.flow} flow, {counts.budget} budget, {counts.quota} quota"),
        check(
            "workers",
            f"{len(workers)} alive{_kinds_taken(workers)}, {waiting} executions wait",
            ok=bool(workers) or not waiting,
            verdict=Verdict.NOTE,
            remedy="nobody takes them: start one with `ff worker MODULE:APP`",
        ),
        *(await _check_kinds(store) if workers else []),
        check(
            "lanes",
            f"{len(lanes)}, {len(paused)} paused",
            ok=not paused,
            verdict=Verdict.NOTE,
            remedy=f"`ff unpause --lane {next(iter(paused), '')}` lets work continue",
        ),
    ]


def _kinds_taken(workers: list[Worker]) -> str:
    if not workers:
        return ""
    names = sorted({kind for worker in workers for kind in worker.kinds})
    more = f" and {len(names) - MAX_KINDS_NAMED} more" if len(names) > MAX_KINDS_NAMED else ""
    anything = ["any kind"] if any(not worker.kinds for worker in workers) else []
    return f" (they take {', '.join(anything + names[:MAX_KINDS_NAMED])}{more})"


async def _check_kinds(store: Commands) -> list[Finding]:
    """Return a note for each kind that no worker takes, among the executions that wait longest."""
    question = ListExecutions(states=(Public.WAITING,), newest_first=False, limit=MAX_WAITING_EXAMINED)
    reasons = await explain_queues(store, (await store.read(question)).runs)
    remedy = "start a worker that takes it, or submit it again under the right name"
    return [
        Finding("kinds", reason.detail, Verdict.NOTE, remedy)
        for reason in reasons.values()
        if reason.reason == NO_WORKER_FOR_KIND
    ]


async def check_secret(store: Commands) -> list[Finding]:
    """Check that a store has a secret that signs waitpoint tokens."""
    try:
        kid = (await store.read(ListKids())).current_kid
    except NotOffered:
        return []
    return [
        check(
            "waitpoint secret",
            f"there, key {kid}" if kid else "none yet",
            ok=kid is not None,
            verdict=Verdict.NOTE,
            remedy="the first server or worker that opens the store creates one",
        )
    ]
