"""The deployment as a whole: lanes, workers, open waitpoints, counts and rates."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Annotated, Any

from msgspec import Meta, Struct

from flowfabric import __version__
from flowfabric.model.command import PAGE_MAX
from flowfabric.model.errors import NotFound
from flowfabric.model.operations.lane import LaneView, ListLanes
from flowfabric.model.operations.lease import CountLeases
from flowfabric.model.operations.read import GetExecution
from flowfabric.model.operations.read_list import CountExecutions
from flowfabric.model.operations.signal import ReadInbox
from flowfabric.model.operations.suspend_waitpoint import WaitpointView
from flowfabric.model.operations.worker import ListWorkers
from flowfabric.model.records import Worker
from flowfabric.model.state import Public
from flowfabric.server.call import Answer, Call
from flowfabric.server.cursors import read_cursor, write_cursor
from flowfabric.server.listing import FIRST, read_names, read_page
from flowfabric.server.roles import Need
from flowfabric.server.routing import endpoint
from flowfabric.server.shapes import present, waitpoint
from flowfabric.storage.resolve import family

_INBOX = "inbox"


class NamesQuery(Struct, frozen=True):
    """Which page of a list that is ordered by names."""

    limit: Annotated[int, Meta(ge=1, le=1_000)] = 1_000
    cursor: str = ""


@endpoint("GET", "/v1/lanes", Need.READ, query=NamesQuery, bound=True)
async def lanes(call: Call) -> Answer:
    """List lanes with what is in them; configured lanes are there from the start."""
    now = call.store.now()
    limit, after = call.query.limit, call.query.cursor
    asked = min(limit + 1, PAGE_MAX)
    question = ListLanes(namespace=call.principal.namespace, after=after, limit=asked)
    found, more = await read_names(call, question)
    configured = [
        name
        for name in call.server.settings.lanes
        if name > after and not (more and name > found[-1].lane_id)  # its turn comes on a later page
    ]
    known = {name: LaneView(name, (), 0, 0, "") for name in configured}
    known |= {lane.lane_id: lane for lane in found}
    page = [known[name] for name in sorted(known)][:limit]
    more = more or len(known) > limit
    shown = [
        {
            "lane_id": lane.lane_id,
            "counts": {str(state): count for state, count in lane.counts},
            "oldest_waiting_age_ms": max(now - lane.oldest_waiting_at, 0) if lane.oldest_waiting_at else None,
            "paused": bool(lane.paused_at),
        }
        | present(paused_at=lane.paused_at, pause_reason=lane.pause_reason)
        for lane in page
    ]
    return Answer({"lanes": shown, "next_cursor": page[-1].lane_id if more else None})


@endpoint("GET", "/v1/workers", Need.READ, query=NamesQuery, bound=True)
async def workers(call: Call) -> Answer:
    """List the workers that live now, by namespace and instance."""
    bound = call.principal.namespace
    after, _, instance = call.query.cursor.rpartition(" ")  # no instance has a blank in its name
    asked = min(call.query.limit + 1, PAGE_MAX)
    found, more = await read_names(call, ListWorkers(namespace=bound, after=(after, instance), limit=asked))
    page = found[: call.query.limit]
    ids = tuple(worker.worker_instance_id for worker in page)
    held = await call.read(CountLeases(worker_instance_ids=ids, namespace=bound))
    cursor = f"{page[-1].namespace} {page[-1].worker_instance_id}" if more else None
    shown = [_worker(worker, leases) for worker, leases in zip(page, held, strict=True)]
    return Answer({"workers": shown, "next_cursor": cursor})


def _worker(worker: Worker, leases: int) -> dict[str, Any]:
    return {
        "worker_id": worker.worker_id,
        "worker_instance_id": worker.worker_instance_id,
        "namespace": worker.namespace,
        "lanes": worker.lanes,
        "capabilities": worker.capabilities,
        "kinds": worker.kinds or None,
        "leases_held": leases,
        "last_heartbeat_at": worker.last_heartbeat_at,
        "last_heartbeat_ms": worker.last_heartbeat_at,
        "liveness_ttl_ms": worker.liveness_ttl_ms,
    } | present(registered_at=worker.registered_at, registered_at_ms=worker.registered_at)


class InboxQuery(Struct, frozen=True):
    """Which page of the inbox."""

    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100
    cursor: str = ""


@endpoint("GET", "/v1/waitpoints", Need.READ, query=InboxQuery, bound=True)
async def inbox(call: Call) -> Answer:
    """List every open waitpoint, the oldest first; never a token."""
    question = ReadInbox(
        namespace=call.principal.namespace, after=read_cursor(_INBOX, call.query.cursor),
        limit=call.query.limit,
    )  # fmt: skip
    return Answer(await call.server.live.read_large(_letters(call, question)))


async def _letters(call: Call, question: ReadInbox) -> dict[str, Any]:
    page = await read_page(call, question)
    now = call.store.now()
    shown: list[dict[str, Any] | None] = []
    for at in range(0, len(page.waitpoints), FIRST):  # their executions may be large, too
        few = page.waitpoints[at : at + FIRST]
        shown += await asyncio.gather(*(_letter(call, view, now) for view in few))
    return {
        "waitpoints": [each for each in shown if each is not None],
        "next_cursor": write_cursor(_INBOX, page.next),
    }


async def _letter(call: Call, view: WaitpointView, now: int) -> dict[str, Any] | None:
    try:
        run = await call.read(GetExecution(execution_id=view.execution_id))
    except NotFound:  # purged since
        return None
    return waitpoint(view) | {
        "namespace": run.namespace,
        "lane_id": run.lane_id,
        "execution_kind": run.execution_kind,
        "public_state": run.public_state,
        "reason": view.reason_code or None,
        "age_ms": max(now - view.created_at, 0),
    }


@endpoint("GET", "/v1/stats", Need.READ, bound=True)
async def stats(call: Call) -> Answer:
    """Count executions by state, and say how busy this server was in the last minute."""
    counts: Counter[str] = Counter({str(state): 0 for state in Public})
    bound = call.principal.namespace
    for state, count in await call.read(CountExecutions(namespace=bound)):
        counts[str(state)] = count
    tally = call.server.tally
    return Answer(
        {
            "counts": counts,
            "total": counts.total(),
            "rates": tally.rates(bound),
            "backend": family(call.server.settings.store),
            "partitions": call.store.partitions,
            "version": __version__,
            "now": call.store.now(),
            "uptime_ms": tally.uptime_ms(),
            "uptime_seconds": tally.uptime_ms() // 1000,
        }
    )
