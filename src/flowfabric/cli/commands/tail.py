"""`ff tail`: show the stream of an execution."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from flowfabric.app import AttemptStarted, Superseded
from flowfabric.app.stream import StreamItem, follow
from flowfabric.cli.support.documents import frame_document, superseded_document
from flowfabric.cli.support.options import add_id
from flowfabric.cli.support.session import CommandSession, add_store_command
from flowfabric.cli.support.text import wrap
from flowfabric.model.ids import parse_entry_id
from flowfabric.model.times import moment


def add(commands: Any) -> None:
    """Add the parser of `ff tail`."""
    about = "show what an execution has streamed; with --follow, continue until it ends"
    parser = add_store_command(commands, "tail", about, tail)
    add_id(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="continue until the execution ends")
    parser.add_argument(
        "--after",
        metavar="POSITION",
        default="",
        help="with --follow: only what comes after this `position` of --json",
    )


async def tail(session: CommandSession) -> int:
    """Show the frames of all attempts; with `--json`, one document on each line."""
    execution_id = await session.find(session.given.id)
    after = session.given.after
    items = follow(
        session.store,
        execution_id,
        after,
        include_superseded=True,
        until_end=session.given.follow or bool(after),
    )
    async with aclosing(items):
        async for item in items:
            _show(session, item)
    return 0


def _show(session: CommandSession, item: StreamItem) -> None:
    output = session.output
    if isinstance(item, AttemptStarted):
        document: dict[str, Any] = {
            "position": item.position,
            "attempt": item.attempt,
            "started": item.kind,
            "reason": item.reason,
        }
        reason = f" ({item.reason})" if item.reason else ""
        text = output.paint(f"── attempt {item.attempt}: {item.kind}{reason}", "dim")
    elif isinstance(item, Superseded):
        document = superseded_document(item)
        text = "\n   ".join(wrap(_superseded_sentence(item), max(output.width - 3, 0)))
        text = output.paint(f"── {text}", "dim")
    else:
        document = frame_document(item)
        value = document.get("payload", document.get("payload_base64"))
        text = f"{output.paint(moment(item.at)[11:], 'dim')}  {item.type:<10}  {value}"
    session.report(document, text)


def _superseded_sentence(item: Superseded) -> str:
    which = "all of the above is" if item.first == "start" else f"the frames since {_time(item.first)} are"
    kept = f", except in stored steps: {', '.join(item.kept_steps)}" if item.kept_steps else ""
    return f"the handler runs again: {which} superseded{kept}"


def _time(entry_id: str) -> str:
    ms, _ = parse_entry_id("entry_id", entry_id)
    return moment(ms)[11:]
