"""Appending frames and reading them back, in few words."""

from __future__ import annotations

import json
from typing import Any

from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.stream import (
    Appended,
    AppendFrames,
    FrameInput,
    ReadStream,
    ReadSummary,
    StreamPage,
    SummaryView,
    TailStream,
)
from flowfabric.model.records import Stream
from support.driver import Driver


def frames(task: Task, *payloads: bytes, index: int | None = None, **fields: Any) -> AppendFrames:
    """Append one frame for each payload, all of the same kind."""
    fence = fields.pop("fence", task.fence)
    inputs = tuple(FrameInput(payload, **fields) for payload in payloads)
    return AppendFrames(execution_id=task.execution_id, fence=fence, frames=inputs, attempt_index=index)


def patch(task: Task, value: Any) -> AppendFrames:
    """Merge a value, or text that is sent as it is, into the summary."""
    payload = value if isinstance(value, bytes) else json.dumps(value).encode()
    return frames(task, payload, mode="summary")


async def append(ff: Driver, task: Task, *payloads: bytes, **fields: Any) -> tuple[Appended, ...]:
    return await ff.store.apply(frames(task, *payloads, **fields))


async def read(ff: Driver, task: Task, count: int = 10_000, **fields: Any) -> StreamPage:
    fields.setdefault("attempt_index", task.attempt_index)
    return await ff.store.read(ReadStream(execution_id=task.execution_id, count=count, **fields))


async def tail(ff: Driver, task: Task, after: str = "0-0", **fields: Any) -> StreamPage:
    fields.setdefault("attempt_index", task.attempt_index)
    return await ff.store.read(TailStream(execution_id=task.execution_id, after=after, **fields))


def payloads(page: StreamPage) -> list[bytes]:
    return [view.frame.payload for view in page.frames]


def numbered(first: int, last: int) -> list[bytes]:
    """Payloads that tell which frame they are."""
    return [str(number).encode() for number in range(first, last + 1)]


async def summary(ff: Driver, task: Task) -> SummaryView | None:
    question = ReadSummary(execution_id=task.execution_id, attempt_index=task.attempt_index)
    return await ff.store.read(question)


async def stream_record(ff: Driver, task: Task) -> Stream:
    found = (await ff.store.dump()).records["stream"][task.execution_id, task.attempt_index]
    assert isinstance(found, Stream)
    return found
