"""Assertions about runs, with messages that say what happened instead."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from flowfabric.app import Frame, Run
from flowfabric.app.stream import follow
from flowfabric.engine import every_step
from flowfabric.model.errors import NotFound
from flowfabric.model.operations.read import GetExecution
from flowfabric.storage.base import Commands

OURS: Final = ("wait:", "waitpoint:", "submit:", "sleep")


async def steps(store: Commands, run: Run[Any], *, waits: bool) -> list[str]:
    """Return the names of the stored steps, with or without those that the context stores itself."""
    stored = [step.name async for step in every_step(store, run.id)]
    return [name for name in stored if waits or not _is_ours(name)]


def _is_ours(name: str) -> bool:
    return name.startswith(OURS[:3]) or name.partition("#")[0] == OURS[3]


async def frames(store: Commands, run: Run[Any], type_: str) -> list[Frame]:
    """Return the frames of the last attempt that are not superseded."""
    attempt = (await store.read(GetExecution(execution_id=run.id))).attempt.index
    items = (
        [item async for item in follow(store, run.id, f"{attempt}.0-0", until_end=False)]
        if attempt >= 0
        else []
    )
    return [item for item in items if isinstance(item, Frame) and type_ in {"", item.type}]


def payload_of(frame: Frame) -> Any:
    """Return the payload of a frame as the handler emitted it."""
    if frame.encoding == "json":
        return frame.data
    return frame.text if frame.encoding == "utf8" else frame.payload


async def assert_state(run: Run[Any], state: str) -> None:
    """Check the state of a run; `gone` means that it is no longer kept."""
    try:
        found = str((await run.status()).state)
    except NotFound:
        found = "gone"
    if found != state:
        raise AssertionError(await describe(run, f"is {found}, not {state}"))


async def assert_same(run: Run[Any], what: str, wanted: list[Any], found: list[Any]) -> None:
    """Check that two lists are equal; the message shows the first difference."""
    if wanted == found:
        return
    place = next(
        (index for index, (one, other) in enumerate(zip(wanted, found, strict=False)) if one != other),
        min(len(wanted), len(found)),
    )
    text = f"has other {what}, from number {place + 1} on\n  wanted: {wanted!r}\n  found:  {found!r}"
    raise AssertionError(await describe(run, text))


async def describe(run: Run[Any], problem: str) -> str:
    """Return a message about a run: the problem, its status and its history."""
    try:
        status, why, events = await run.status(), await run.explain(), await run.history()
    except NotFound:
        return f"{run.id} {problem}; nothing is kept of it any more"
    lines = [f"{status.kind} {problem}", f"  {why}"]
    if status.reason:
        lines.append(f"  reason: {status.reason}" + (f" ({status.category})" if status.category else ""))
    lines.append("  history:")
    lines += [f"    {_at(event.at)} {event.event}" for event in events]
    return "\n".join(lines)


def _at(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
