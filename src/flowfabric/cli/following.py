"""`ff tail`: what an execution streams, over all its attempts."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from flowfabric.app import AttemptStarted, Frame
from flowfabric.app.stream import follow
from flowfabric.app.views import frame_of, start_of
from flowfabric.cli.desk import Desk, command
from flowfabric.model.contracts.reads import ListAttempts, TailStream
from flowfabric.model.times import moment

PAGE: Final = 100


def add(commands: Any) -> None:
    """Describe the command."""
    parser = command(
        commands, "tail", "show what an execution has streamed; with --follow go on until it ends", tail
    )
    parser.add_argument("id", metavar="ID", help="the execution; its UUID or the beginning of that will do")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until it has ended")
    parser.add_argument(
        "--after",
        metavar="POSITION",
        default="",
        help="with --follow: only what comes after this `position` of --json",
    )


async def tail(desk: Desk) -> int:
    """Show frames; with --json one document on each line."""
    execution_id = await desk.find(desk.given.id)
    following = desk.given.follow or desk.given.after
    items = follow(desk.store, execution_id, desk.given.after) if following else _told(desk, execution_id)
    async with aclosing(items):
        async for item in items:
            _show(desk, item)
    return 0


async def _told(desk: Desk, execution_id: str) -> AsyncGenerator[Frame | AttemptStarted]:
    """Tell what was streamed by now."""
    before = None
    for attempt in await desk.store.read(ListAttempts(execution_id=execution_id)):
        yield start_of(attempt, before)
        before, cursor = attempt, "0-0"
        while cursor:
            page = await desk.store.read(
                TailStream(execution_id=execution_id, attempt_index=attempt.index, after=cursor, count=PAGE)
            )
            for view in page.frames:
                yield frame_of(view, attempt.index)
            cursor = page.last


def _show(desk: Desk, item: Frame | AttemptStarted) -> None:
    screen = desk.screen
    if isinstance(item, AttemptStarted):
        told = {
            "position": item.position,
            "attempt": item.attempt,
            "started": item.kind,
            "reason": item.reason,
        }
        why = f" ({item.reason})" if item.reason else ""
        text = screen.paint(f"── attempt {item.attempt}: {item.kind}{why}", "dim")
    else:
        told = frame_document(item)
        value = told.get("payload", told.get("payload_base64"))
        text = f"{screen.paint(moment(item.at)[11:], 'dim')}  {item.type:<10}  {value}"
    if desk.json:
        screen.json(told)
    else:
        screen.line(text)


def frame_document(frame: Frame) -> dict[str, Any]:
    """Write a frame for programs."""
    told = {"position": frame.position, "attempt": frame.attempt, "type": frame.type, "at": frame.at}
    return told | _payload(frame)


def _payload(frame: Frame) -> dict[str, str]:
    try:
        return {"payload": frame.text}
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(frame.payload).decode()}
