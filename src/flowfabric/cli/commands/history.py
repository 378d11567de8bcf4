"""`ff history`: show what happened to an execution."""

from __future__ import annotations

from typing import Any, Final

from flowfabric.cli.support.options import add_id
from flowfabric.cli.support.pages import read_history
from flowfabric.cli.support.session import CommandSession, add_store_command
from flowfabric.cli.support.text import short_id
from flowfabric.model.ids import is_uuid
from flowfabric.model.records import Event
from flowfabric.model.times import moment
from flowfabric.wire.views import EventView

HEAD: Final = ("at", "event", "by", "what", "state", "attempt", "ids")
IDENTITY: Final = "source_identity"
HIDDEN_DETAILS: Final = ("worker_instance_id", "attempt_id")
"""Details that only `--json` shows, because columns name the worker and the attempt already."""
SUBJECTS: Final = ("signal_name", "name", "step_name", "waitpoint_key")
"""Details whose value is shown without their name, because it says what the event is about."""


def add(commands: Any) -> None:
    """Add the parser of `ff history`."""
    add_id(add_store_command(commands, "history", "show what happened to an execution, in order", history))


async def history(session: CommandSession) -> int:
    """Show every event of one execution."""
    execution_id = await session.find(session.given.id)
    events = await read_history(session.store, execution_id)
    if session.json:
        session.output.json([EventView.of(event) for event in events])
        return 0
    days = {moment(event.at)[:10] for event in events}
    with_date = len(days) != 1
    if not with_date:
        session.output.line(session.output.paint(f"{execution_id}, {days.pop()} (UTC)", "dim"))
    session.output.table(HEAD, [_row(event, with_date=with_date) for event in events], optional=1)
    return 0


def _row(event: Event, *, with_date: bool) -> tuple[str, ...]:
    """Return when, what, who and why; the shortened ids come last."""
    at = moment(event.at)
    details = dict(event.details)
    by = details.pop(IDENTITY, "") or event.actor
    worker = details.pop("worker_id", "")
    if worker and worker != by:
        details = {"worker": worker, **details}
    for name in HIDDEN_DETAILS:
        details.pop(name, "")
    subjects = [value for name in SUBJECTS if (value := details.pop(name, ""))]
    ids = {name: details.pop(name) for name, value in event.details if name in details and is_uuid(value)}
    others = [f"{name}={_format_detail(name, value)}" for name, value in details.items()]
    return (
        at if with_date else at[11:],
        event.event,
        by,
        "; ".join(filter(None, (*subjects, event.reason, *others))),
        event.to_state if event.to_state != event.from_state else "",
        str(event.attempt_index) if event.attempt_index >= 0 else "",
        " ".join(f"{name.removesuffix('_id')}={short_id(value)[:8]}" for name, value in ids.items()),
    )


def _format_detail(name: str, value: str) -> str:
    return moment(int(value), to_the_second=True) if name == "delay_until" and value.isdigit() else value
