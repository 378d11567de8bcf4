"""The stream of a run over all its attempts, told as it is written."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Final

from flowfabric.app.patience import patiently
from flowfabric.app.views import AttemptStarted, Frame, frame_of, start_of
from flowfabric.model.contracts.reads import GetExecution, ListAttempts, StreamPage, TailStream
from flowfabric.model.errors import invalid
from flowfabric.model.ids import parse_entry_id
from flowfabric.model.state import TERMINAL_STATES
from flowfabric.storage.base import Commands

PAGE: Final = 100
LOOK_SECONDS: Final = 5.0
"""How often a reader looks although nothing woke it."""


async def follow(
    store: Commands, execution_id: str, after: str = ""
) -> AsyncGenerator[Frame | AttemptStarted]:
    """Tell every attempt's beginning and frames until the run has ended; go on when the store was away."""
    attempt, cursor = _place(after)
    announced = bool(after)
    async with AsyncExitStack() as stack:
        topics = [f"execution:{execution_id}"]
        woken = await patiently(lambda: stack.enter_async_context(store.subscribe(topics)))
        while True:
            run = await patiently(lambda: store.read(GetExecution(execution_id=execution_id)))
            if run.attempt.index >= attempt and not announced:
                announced = True
                yield await _start(store, execution_id, attempt)
            # The record was read before the frames: an end that it shows is the end of what follows.
            while announced and (page := await _page(store, execution_id, attempt, cursor)).last:
                for view in page.frames:
                    yield frame_of(view, attempt)
                cursor = page.last
            if run.attempt.index > attempt:
                attempt, cursor, announced = attempt + 1, "0-0", False
            elif run.public_state in TERMINAL_STATES:
                return
            else:
                await woken.wait(LOOK_SECONDS)


async def _page(store: Commands, execution_id: str, attempt: int, cursor: str) -> StreamPage:
    question = TailStream(execution_id=execution_id, attempt_index=attempt, after=cursor, count=PAGE)
    return await patiently(lambda: store.read(question))


async def _start(store: Commands, execution_id: str, attempt: int) -> AttemptStarted:
    attempts = await patiently(lambda: store.read(ListAttempts(execution_id=execution_id)))
    known = {each.index: each for each in attempts}
    return start_of(known[attempt], known.get(attempt - 1)) if attempt in known else AttemptStarted(attempt)


def _place(after: str) -> tuple[int, str]:
    """Read the position of a frame that was seen last."""
    if not after:
        return 0, "0-0"
    attempt, separator, entry = after.partition(".")
    if not separator or not attempt.isdecimal() or len(attempt) > 9:
        raise invalid("after", "give the `position` of a frame, as in 0.1700000000000-0")
    parse_entry_id("after", entry)
    return int(attempt), entry
