"""Show waitpoints, and find the one that a user names."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from flowfabric.cli.support.session import CommandSession
from flowfabric.cli.support.text import printable, printable_lines, short_id
from flowfabric.engine import every_waitpoint
from flowfabric.model.errors import NotFound, invalid
from flowfabric.model.ids import SHORTEST_PREFIX
from flowfabric.model.operations.suspend_waitpoint import WaitpointView
from flowfabric.model.times import since
from flowfabric.worker.steps.journal import SLEEPING

APPROVE: Final = "approve"


def show_waitpoints(
    session: CommandSession,
    views: tuple[WaitpointView, ...],
    indent: str = "",
    *,
    with_details: bool = False,
) -> None:
    """Print a table of waitpoints; the message of each, and its details if wanted, follow its row."""
    now = session.now()
    session.output.table(
        ("waitpoint", "execution", "key", "signals", "state", "age", "expires"),
        [
            (
                short_id(view.waitpoint_id),
                short_id(view.execution_id),
                view.waitpoint_key,
                _signals(view),
                view.state,
                since(view.created_at, now),
                since(view.expires_at, now),
            )
            for view in views
        ],
        indent,
        notes=[_note(view, with_details=with_details) for view in views],
    )


def _signals(view: WaitpointView) -> str:
    return ", ".join(view.required_signal_names) or (
        "none: it sleeps" if view.reason_code == SLEEPING else "any"
    )


def _note(view: WaitpointView, *, with_details: bool) -> str:
    details: dict[str, Any] = msgspec.json.decode(view.details) if with_details and view.details else {}
    lines = [f"{printable(name)}: {_text(value)}" for name, value in details.items()]
    return "\n".join(filter(None, [printable_lines(view.message), *lines]))


def _text(value: Any) -> str:
    return printable(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def answer_command(view: WaitpointView, *, is_ambiguous: bool = False) -> str:
    """Return the command, without `ff`, that answers a waitpoint; it names the waitpoint where it has to."""
    names, short = view.required_signal_names, short_id(view.execution_id)
    if APPROVE in names or not names:
        return f"approve {short_id(view.waitpoint_id) if is_ambiguous else short} --as you"
    which = f" --waitpoint {short_id(view.waitpoint_id)}" if is_ambiguous else ""
    return f"signal {short} {names[0]}{which}"


def answer_commands(
    session: CommandSession, views: tuple[WaitpointView, ...]
) -> list[tuple[WaitpointView, str]]:
    """Return each waitpoint that waits for a signal, with the command that answers it."""
    return [
        (view, session.next_command(answer_command(view, is_ambiguous=len(views) > 1)))
        for view in views
        if view.reason_code != SLEEPING
    ]


async def find_waitpoint(session: CommandSession, execution_id: str, text: str) -> str:
    """Return the id of an open waitpoint for its id, the beginning of its id, or its key."""
    found = [
        each.waitpoint_id
        for each in await every_waitpoint(session.store, execution_id)
        if text == each.waitpoint_key or is_id_prefix(text, each.waitpoint_id)
    ]
    if not found:
        raise NotFound(f"{execution_id} has no open waitpoint {text}; `ff inspect` shows its waitpoints")
    if len(found) > 1:
        raise invalid("waitpoint", f"{text} is short for several: {', '.join(found)}")
    return found[0]


def is_id_prefix(text: str, uuid: str) -> bool:
    """Return whether text is a long enough beginning of a UUID."""
    return len(text) >= SHORTEST_PREFIX and uuid.startswith(text.lower())
