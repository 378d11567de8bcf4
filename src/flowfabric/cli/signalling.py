"""`ff signal`, `ff approve`: answers for what waits."""

from __future__ import annotations

from typing import Any, Final

from flowfabric.cli.arguments import value_of
from flowfabric.cli.desk import PAGE, Desk, command, short_id
from flowfabric.engine import every_waitpoint
from flowfabric.model.errors import NotFound, invalid
from flowfabric.model.ids import SHORTEST_PREFIX
from flowfabric.model.operations.signal import ReadInbox
from flowfabric.model.operations.suspend_waitpoint import WaitpointView
from flowfabric.worker.steps.journal import SLEEPING

APPROVE: Final = "approve"


def add(commands: Any) -> None:
    """Describe the commands."""
    parser = command(commands, "signal", "send a signal to what an execution waits for", signal)
    parser.add_argument("id", metavar="ID", help="the execution; its UUID or the beginning of that will do")
    parser.add_argument("name", metavar="NAME", help="the name of the signal")
    parser.add_argument("--payload", metavar="JSON", help="what it carries: JSON, or else text")
    parser.add_argument("--waitpoint", default="", help="which waitpoint, where several take the signal")
    parser.add_argument(
        "--token", default="", help="the waitpoint's token: sends as an outsider, not as an operator"
    )
    parser.add_argument("--as", "--by", dest="by", metavar="NAME", default="", help="who sends it")
    parser.add_argument("--key", default="", help="of two signals with one key only the first counts")
    parser.add_argument(
        "--within",
        metavar="DURATION",
        default="0s",
        help="wait so long for it to wait for this (default: 0s)",
    )
    parser = command(commands, "approve", "send the signal `approve`, or with --reject `reject`", approve)
    parser.add_argument(
        "id", metavar="ID|WAITPOINT", help="the execution or its waitpoint; the beginning of its UUID will do"
    )
    parser.add_argument("--reject", action="store_true", help="send `reject`")
    parser.add_argument(
        "--as", "--by", dest="by", metavar="NAME", default="", help="who decides; counts once"
    )
    parser.add_argument("--payload", metavar="JSON", help="what it carries: JSON, or else text")
    parser.add_argument(
        "--within",
        metavar="DURATION",
        default="0s",
        help="wait so long for it to wait for this (default: 0s)",
    )


async def signal(desk: Desk) -> int:
    """Send one signal."""
    given = desk.given
    execution_id = await desk.find(given.id)
    waitpoint = await _waitpoint(desk, execution_id, given.waitpoint) if given.waitpoint else ""
    await desk.run(execution_id).signal(
        given.name,
        _payload(desk),
        waitpoint=waitpoint,
        token=given.token,
        by=given.by,
        key=given.key,
        within=given.within,
    )
    _tell(desk, execution_id, given.name)
    return 0


async def approve(desk: Desk) -> int:
    """Approve or reject."""
    given = desk.given
    execution_id, waitpoint = await _either(desk, given.id)
    run = desk.run(execution_id)
    decide = run.reject if given.reject else run.approve
    await decide(_payload(desk), by=given.by, waitpoint=waitpoint, within=given.within)
    _tell(desk, execution_id, "reject" if given.reject else "approve")
    return 0


def answers(desk: Desk, waitpoints: tuple[WaitpointView, ...]) -> list[tuple[WaitpointView, str]]:
    """Return each waitpoint which waits for a signal, with the command that answers it."""
    return [
        (view, desk.again(answer(view, several=len(waitpoints) > 1)))
        for view in waitpoints
        if view.reason_code != SLEEPING
    ]


def answer(view: WaitpointView, *, several: bool = False) -> str:
    """Write the command that answers a waitpoint, without `ff`; where there are `several`, it names this one."""
    names, short = view.required_signal_names, short_id(view.execution_id)
    if APPROVE in names or not names:
        return f"approve {short_id(view.waitpoint_id) if several else short} --as you"
    which = f" --waitpoint {short_id(view.waitpoint_id)}" if several else ""
    return f"signal {short} {names[0]}{which}"


def _payload(desk: Desk) -> Any:
    return None if desk.given.payload is None else value_of(desk.given.payload)


def _tell(desk: Desk, execution_id: str, name: str) -> None:
    desk.say(
        {"execution_id": execution_id, "signal_name": name, "accepted": True},
        f"{name} sent to {execution_id}",
    )


async def _either(desk: Desk, text: str) -> tuple[str, str]:
    """Return the execution and, if it was that which was named, the waitpoint."""
    if not text.startswith("{"):
        found = [view for view in await _inbox(desk) if _names(text, view.waitpoint_id)]
        if len(found) == 1:
            return found[0].execution_id, found[0].waitpoint_id
    return await desk.find(text), ""


async def _waitpoint(desk: Desk, execution_id: str, text: str) -> str:
    """Return the waitpoint that is meant by its id, the beginning of that, or its key."""
    found = [
        each.waitpoint_id
        for each in await every_waitpoint(desk.store, execution_id)
        if text == each.waitpoint_key or _names(text, each.waitpoint_id)
    ]
    if not found:
        raise NotFound(f"{execution_id} has no open waitpoint {text}; `ff inspect` shows which it has")
    if len(found) > 1:
        raise invalid("waitpoint", f"{text} is short for several: {', '.join(found)}")
    return found[0]


async def _inbox(desk: Desk) -> list[WaitpointView]:
    found: list[WaitpointView] = []
    after = 0
    while True:
        page = await desk.store.read(ReadInbox(after=after, limit=PAGE))
        found += page.waitpoints
        after = page.next
        if not after:
            return found


def _names(text: str, uuid: str) -> bool:
    return len(text) >= SHORTEST_PREFIX and uuid.startswith(text.lower())
