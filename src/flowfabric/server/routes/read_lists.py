"""Lists and counts of executions."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from flowfabric import __version__
from flowfabric.model.command import PAGE_MAX
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.ids import parse_execution_id
from flowfabric.model.operations.read_list import (
    CountExecutions,
    ListExecutions,
    ListPartition,
    ListQueue,
    matches,
)
from flowfabric.model.records import Execution
from flowfabric.model.state import Public
from flowfabric.server.http.call import Response, ServerCall
from flowfabric.server.http.cursors import (
    bad_cursor,
    queue_name,
    read_cursor,
    read_place,
    write_cursor,
    write_place,
)
from flowfabric.server.http.listing import read_list
from flowfabric.server.http.routing import serves
from flowfabric.storage.resolve import family
from flowfabric.wire.errors import bad_request
from flowfabric.wire.fields import path_uuid
from flowfabric.wire.read import LIST, STATS, ExecutionList, ListQuery, Stats
from flowfabric.wire.views import SummaryView

_NEVER_STORED = "resumable"
"""A state that some clients know and that no execution of ours is ever in."""


@serves(LIST)
async def list_executions(call: ServerCall) -> Response:
    """List executions of all partitions, or the ids of one."""
    asked: ListQuery = call.query
    if asked.partition is not None:
        return await _partition(call, asked, asked.partition)
    runs, cursor = await _page(call, asked)
    return Response(ExecutionList(executions=tuple(map(SummaryView.of, runs)), next_cursor=cursor))


async def _partition(call: ServerCall, asked: ListQuery, partition: int) -> Response:
    count = call.store.partitions.flow
    if partition >= count:
        raise bad_request(f"partition {partition} is outside the configured count {count}", field="partition")
    if asked.cursor:
        try:
            parse_execution_id(asked.cursor)
        except FlowFabricError as error:
            raise bad_cursor(error.text) from error
    if not asked.limit:
        return Response(ExecutionList(executions=(), next_cursor=None))
    page = await call.read(
        ListPartition(
            partition=partition,
            namespace=call.principal.namespace,
            after=asked.cursor,
            limit=min(asked.limit, PAGE_MAX),
        )
    )
    return Response(ExecutionList(executions=page.ids, next_cursor=page.next or None))


async def _page(call: ServerCall, asked: ListQuery) -> tuple[Sequence[Execution], str | None]:
    bound = call.principal.namespace
    states = [_state(name) for name in asked.state if name not in {"eligible", _NEVER_STORED}]
    tags = {_tag(text) for text in asked.tag}
    queue = asked.order == "queue"
    question = ListExecutions(
        lane_id=asked.lane,
        states=tuple(states),
        eligible="eligible" in asked.state,
        namespace=bound or asked.namespace,
        execution_kind=asked.kind,
        flow_id=path_uuid("flow_id", asked.flow_id) if asked.flow_id else "",
        tags=tuple(sorted(dict(tags).items())),
        created_after=asked.created_after,
        created_before=asked.created_before,
        newest_first=asked.order == "newest",
        limit=asked.limit,
        after=0 if queue else read_cursor(asked.order, asked.cursor),
    )
    question.check()
    no_state = asked.state and not states and not question.eligible
    two_values = len(question.tags) < len(tags)
    if no_state or two_values or (bound and asked.namespace not in {"", bound}):
        return (), None
    if queue:
        return await _queue(call, asked, question)
    page = await read_list(call, question)
    return page.runs, write_cursor(asked.order, page.next)


async def _queue(
    call: ServerCall, asked: ListQuery, filters: ListExecutions
) -> tuple[Sequence[Execution], str | None]:
    if not asked.lane:
        raise bad_request("order=queue needs one lane", field="lane")
    about = queue_name(asked.lane, call.principal.namespace)
    question = ListQueue(lane_id=asked.lane, namespace=filters.namespace, limit=asked.limit)
    if asked.cursor:
        question = replace(question, after=await read_place(call.store, about, asked.cursor))
    page = await read_list(call, question)
    cursor = None if page.next is None else await write_place(call.store, about, page.next)
    # What the other filters leave may be less than a page while there is a next one.
    return [run for run in page.runs if matches(filters, run)], cursor


def _state(name: str) -> Public:
    try:
        return Public(name)
    except ValueError as error:
        known = ", ".join((*Public, "eligible"))
        raise bad_request(f"unknown state {name!r}; there is {known}", field="state") from error


def _tag(text: str) -> tuple[str, str]:
    key, separator, value = text.partition(":")
    if not key or not separator:
        raise bad_request("write a tag as key:value", field="tag")
    return key, value


@serves(STATS)
async def stats(call: ServerCall) -> Response:
    """Count executions by state, and say how busy this server was in the last minute."""
    bound = call.principal.namespace
    counts = {str(state): 0 for state in Public}
    for state, count in await call.read(CountExecutions(namespace=bound)):
        counts[str(state)] = count
    tally = call.server.tally
    view = Stats(
        counts=counts,
        total=sum(counts.values()),
        rates=tally.rates(bound),
        backend=family(call.server.settings.store),
        partitions=call.partitions,
        version=__version__,
        now=call.now(),
        uptime_ms=tally.uptime_ms(),
        uptime_seconds=tally.uptime_ms() // 1000,
    )
    return Response(view)
