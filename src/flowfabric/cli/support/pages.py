"""Read lists that a store answers page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from flowfabric.model.errors import NotFound
from flowfabric.model.kinds import DEFAULT_LANE
from flowfabric.model.operations.kind import GetKind, ListKinds
from flowfabric.model.operations.lane import LaneView, ListLanes
from flowfabric.model.operations.read import ReadHistory
from flowfabric.model.operations.signal import ReadInbox
from flowfabric.model.operations.suspend_waitpoint import WaitpointView
from flowfabric.model.operations.worker import ListWorkers
from flowfabric.model.records import Event, Kind, Worker
from flowfabric.storage.base import Commands

PAGE_SIZE: Final = 1_000


async def read_lanes(store: Commands) -> list[LaneView]:
    """Return all lanes."""
    lanes: list[LaneView] = []
    while page := await store.read(ListLanes(after=lanes[-1].lane_id if lanes else "")):
        lanes += page
    return lanes


async def read_workers(store: Commands) -> list[Worker]:
    """Return all live workers."""
    workers: list[Worker] = []
    after = ("", "")
    while page := await store.read(ListWorkers(after=after)):
        workers += page
        after = (page[-1].namespace, page[-1].worker_instance_id)
    return workers


async def read_lane_names(store: Commands) -> set[str]:
    """Return the lanes that have work or a live worker, and the default lane."""
    lanes = {lane.lane_id for lane in await read_lanes(store)}
    return lanes | {name for worker in await read_workers(store) for name in worker.lanes} | {DEFAULT_LANE}


async def read_inbox(store: Commands) -> list[WaitpointView]:
    """Return all open waitpoints."""
    waitpoints: list[WaitpointView] = []
    after = 0
    while True:
        page = await store.read(ReadInbox(after=after, limit=PAGE_SIZE))
        waitpoints += page.waitpoints
        after = page.next
        if not after:
            return waitpoints


async def read_history(store: Commands, execution_id: str) -> list[Event]:
    """Return the whole history of an execution."""
    events: list[Event] = []
    while True:
        after = events[-1].seq if events else 0
        page = await store.read(ReadHistory(execution_id=execution_id, after=after, limit=PAGE_SIZE))
        events += page.events
        if not page.next:
            return events


async def iterate_kinds(store: Commands, namespace: str | None, limit: int) -> AsyncIterator[Kind]:
    """Yield published kinds, up to a limit."""
    question = ListKinds(namespace=namespace, limit=limit)
    left = limit
    while left:
        page = await store.read(question)
        for kind in page.kinds:
            yield kind
        left -= len(page.kinds)
        if page.next is None:
            return
        question = ListKinds(namespace=namespace, limit=max(1, left), after=page.next)


async def find_kind(store: Commands, kind: str, namespace: str) -> Kind | None:
    """Return a published kind; None if no worker has published it, or if the server is too old to know kinds."""
    try:
        return await store.read(GetKind(kind=kind, namespace=namespace))
    except NotFound:
        return None
