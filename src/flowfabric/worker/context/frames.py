"""Sending the frames of one attempt, in order and in batches."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from flowfabric.model.errors import FlowFabricError
from flowfabric.model.limits import FRAME_READ_MAX
from flowfabric.model.operations.stream import MAX_FRAMES_PER_CALL, FrameInput, TailStream
from flowfabric.worker.claimed_task import ClaimedTask
from flowfabric.worker.outbox import RetryPause, is_transient

FULL: Final = 4 * MAX_FRAMES_PER_CALL
"""How many unsent frames are buffered before `emit` waits."""
MAX_BYTES: Final = 512 * 1024
"""The most bytes of payload in one call."""


class FrameSender:
    """Sends the frames of one handler; each call starts after the previous one was answered."""

    def __init__(self, task: ClaimedTask) -> None:
        self._task = task
        self._waiting: list[FrameInput] = []
        self._pump: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._last = "0-0"

    async def emit(self, frame: FrameInput) -> None:
        """Buffer a frame; wait only if the buffer is full. Raises the error of an earlier frame."""
        frame.check()
        self._raise()
        self._waiting.append(frame)
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._send())
        if len(self._waiting) >= FULL:
            await self.flush()

    async def flush(self) -> None:
        """Wait until every frame is stored."""
        while self._pump is not None and not self._pump.done():
            await asyncio.shield(self._pump)
        self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    async def _send(self) -> None:
        try:
            while self._waiting:
                part = self._part()
                await self._append(part)
                del self._waiting[: len(part)]
        except FlowFabricError as error:
            self._error = error

    def _part(self) -> list[FrameInput]:
        size = count = 0
        for frame in self._waiting[:MAX_FRAMES_PER_CALL]:
            size += len(frame.payload)
            if count and size > MAX_BYTES:
                break
            count += 1
        return self._waiting[:count]

    async def _append(self, part: list[FrameInput]) -> None:
        """Append frames. If the answer was lost, check whether they were stored before sending them again."""
        backoff = RetryPause()
        unknown = False
        while True:
            try:
                if unknown and await self._arrived(part):
                    return
                unknown = False
                appended = await self._task.append_frames(part)
            except FlowFabricError as error:
                if not is_transient(error) or not self._task.is_lease_healthy:
                    raise
                unknown = True
            else:
                self._last = appended[-1].entry_id
                return
            await backoff.pause()

    async def _arrived(self, part: list[FrameInput]) -> bool:
        """Return True if the stream ends with these frames; no one else writes to it."""
        task = self._task
        tail: list[tuple[int, str, bytes]] = []
        after = self._last
        while True:
            page = await task.ask(
                TailStream(
                    execution_id=task.execution_id,
                    attempt_index=task.attempt_index,
                    after=after,
                    count=FRAME_READ_MAX,
                )
            )
            if not page.last:
                break
            after = page.last
            found = [(view.frame.ts, view.frame.frame_type, view.frame.payload) for view in page.frames]
            tail = (tail + found)[-len(part) :]
        arrived = tail == [(frame.ts, frame.frame_type, frame.payload) for frame in part]
        if arrived:
            self._last = after
        return arrived


def now_ms() -> int:
    """Return the time of a frame, which also distinguishes it from an equal one."""
    return time.time_ns() // 1_000_000
