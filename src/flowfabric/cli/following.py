"""`ff tail`: what an execution streams, over all its attempts."""

from __future__ import annotations

import base64
from contextlib import aclosing
from typing import Any

from flowfabric.app import AttemptStarted, Frame, Superseded
from flowfabric.app.stream import StreamItem, follow
from flowfabric.cli.desk import Desk, command
from flowfabric.cli.screen import wrapped
from flowfabric.model.ids import parse_entry_id
from flowfabric.model.times import moment


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
    items = follow(
        desk.store, execution_id, desk.given.after, include_superseded=True, until_end=bool(following)
    )
    async with aclosing(items):
        async for item in items:
            _show(desk, item)
    return 0


def _show(desk: Desk, item: StreamItem) -> None:
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
    elif isinstance(item, Superseded):
        told = superseded_document(item)
        text = "\n   ".join(wrapped(superseded_sentence(item), max(screen.width - 3, 0)))
        text = screen.paint(f"── {text}", "dim")
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
    told: dict[str, Any] = {
        "position": frame.position, "attempt": frame.attempt, "lease_epoch": frame.lease_epoch, "type": frame.type,
        "at": frame.at,
    }  # fmt: skip
    return told | ({"step": frame.step} if frame.step else {}) | _payload(frame)


def superseded_document(item: Superseded) -> dict[str, Any]:
    """Write for programs which frames count no more."""
    return {
        "position": item.position,
        "attempt": item.attempt,
        "superseded": {
            "lease_epoch": item.lease_epoch, "from": item.first, "to": item.last, "by_epoch": item.by_epoch,
            "kept_steps": list(item.kept_steps),
        },
    }  # fmt: skip


def superseded_sentence(item: Superseded) -> str:
    """Say which frames count no more."""
    which = "all of the above is" if item.first == "start" else f"the frames since {_time(item.first)} are"
    kept = f", except in stored steps: {', '.join(item.kept_steps)}" if item.kept_steps else ""
    return f"the handler runs again: {which} superseded{kept}"


def _time(entry_id: str) -> str:
    ms, _ = parse_entry_id("entry_id", entry_id)
    return moment(ms)[11:]


def _payload(frame: Frame) -> dict[str, str]:
    try:
        return {"payload": frame.text}
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(frame.payload).decode()}
