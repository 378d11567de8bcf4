"""`ff history`: what happened to an execution, one line for each event."""

from __future__ import annotations

from typing import Any, Final

from flowfabric.cli.desk import Desk, command, short_id
from flowfabric.model.ids import is_uuid
from flowfabric.model.operations.read import ReadHistory
from flowfabric.model.records import Event
from flowfabric.model.times import moment
from flowfabric.wire.views import EventView

PAGE: Final = 1_000
HEAD: Final = ("at", "event", "by", "what", "state", "attempt", "ids")
BY: Final = "source_identity"
LEFT_OUT: Final = ("worker_instance_id", "attempt_id")
"""Details that `--json` has: the worker and the number of the attempt stand in columns of their own."""
NAMES: Final = ("signal_name", "name", "step_name", "waitpoint_key")
"""Details whose value says what an event is about, without their name."""


def add(commands: Any) -> None:
    """Describe the command."""
    parser = command(commands, "history", "show what happened to an execution, in order", history)
    parser.add_argument("id", metavar="ID", help="the execution; its UUID or the beginning of that will do")


async def history(desk: Desk) -> int:
    """Show the history of one execution."""
    execution_id = await desk.find(desk.given.id)
    events: list[Event] = []
    more = True
    while more:
        after = events[-1].seq if events else 0
        page = await desk.store.read(ReadHistory(execution_id=execution_id, after=after, limit=PAGE))
        events += page.events
        more = bool(page.next)
    if desk.json:
        desk.screen.json([EventView.of(line) for line in events])
        return 0
    days = {moment(each.at)[:10] for each in events}
    if len(days) == 1:
        desk.screen.line(desk.screen.paint(f"{execution_id}, {days.pop()} (UTC)", "dim"))
    desk.screen.table(HEAD, [row(each, dated=bool(days)) for each in events], spare=1)
    return 0


def row(each: Event, *, dated: bool) -> tuple[str, ...]:
    """Write one event: when, what, who and why first, and at the end the ids, shortened."""
    at = moment(each.at)
    details = dict(each.details)
    by = details.pop(BY, "") or each.actor
    worker = details.pop("worker_id", "")
    if worker and worker != by:
        details = {"worker": worker, **details}
    for name in LEFT_OUT:
        details.pop(name, "")
    named = [value for name in NAMES if (value := details.pop(name, ""))]
    ids = {name: details.pop(name) for name, value in each.details if name in details and is_uuid(value)}
    others = [f"{name}={_time(name, value)}" for name, value in details.items()]
    return (
        at if dated else at[11:], each.event, by, "; ".join(filter(None, (*named, each.reason, *others))),
        each.to_state if each.to_state != each.from_state else "",
        str(each.attempt_index) if each.attempt_index >= 0 else "",
        " ".join(f"{name.removesuffix('_id')}={short_id(value)[:8]}" for name, value in ids.items()),
    )  # fmt: skip


def _time(name: str, value: str) -> str:
    return moment(int(value), to_the_second=True) if name == "delay_until" and value.isdigit() else value
