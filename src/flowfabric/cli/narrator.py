"""Tells what happens while it happens: history from the feed, frames from the streams."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from flowfabric.app.views import frame_of
from flowfabric.cli.desk import short_id
from flowfabric.cli.following import frame_document
from flowfabric.cli.screen import Screen
from flowfabric.engine import every_step
from flowfabric.engine.superseded import Supersession
from flowfabric.model.errors import FlowFabricError, NotFound
from flowfabric.model.ids import parse_entry_id
from flowfabric.model.limits import FRAME_READ_MAX, MAX_INT
from flowfabric.model.operations.read import GetResult
from flowfabric.model.operations.read_list import FeedEntry, ReadFeed
from flowfabric.model.operations.stream import FrameView, TailStream
from flowfabric.model.records import Event, LeaseStart
from flowfabric.model.state import TERMINAL_STATES
from flowfabric.model.superseded import Superseded, lease_of
from flowfabric.storage.base import Upkeep
from flowfabric.wire.views import EventView
from flowfabric.worker.sending import transient

LOOK_SECONDS: Final = 1.0
STREAMS: Final = 50
"""Of so many executions the frames are told at once; of more, only what happens to them."""
LONG: Final = 100
PIECE: Final = "token"
"""Frames of this type are pieces of one text, and are written one after the other."""

CLAIMS: Final = frozenset({"claimed", "reclaimed", "resumed_claim"})
"""Lines that begin a lease."""

Hears = Callable[[FeedEntry, str], Awaitable[None]]


def _worker(event: Event) -> str:
    return dict(event.details).get("worker_id", event.actor)


SENTENCES: Final[dict[str, tuple[str, Callable[[Event], str]]]] = {
    "created": ("", lambda _: "submitted"),
    "claimed": ("cyan", lambda event: f"claimed by {event.actor}"),
    "step": ("", lambda event: f"step {dict(event.details)['name']} stored"),
    "completed": ("green", lambda _: "completed"),
    "failed": ("red", lambda event: f"failed: {event.reason}"),
    "retry_scheduled": ("yellow", lambda event: f"failed ({event.reason}), will be tried again"),
    "promoted": ("", lambda _: "its time has come, waiting for a worker"),
    "suspended": ("magenta", lambda _: "suspended: the lease is given back, no worker is kept busy"),
    "signal": ("magenta", lambda event: f"signal {dict(event.details)['signal_name']} accepted"),
    "resumed": ("magenta", lambda _: "may go on, waiting for a worker"),
    "resumed_claim": ("cyan", lambda event: f"resumed by {event.actor}"),
    "lease_expired": ("red", lambda event: f"the lease of {_worker(event)} expired"),
    "reclaimed": ("yellow", lambda event: f"reclaimed by {event.actor}"),
}
"""How each line of history reads; what is not here is told by its own name."""


class Narrator:
    """Follows everything that happens in a store; `hears` is called with every line, after it was told."""

    def __init__(self, store: Upkeep, screen: Screen, hears: Hears, documents: Screen | None = None) -> None:
        self._store = store
        self._screen = screen
        self._documents = documents
        """Where everything is told as JSON, for programs; none: it is told as text."""
        self._hears = hears
        self._started = store.now()
        self._position = 0
        self._names: dict[str, str] = {}
        self._running: dict[str, int] = {}
        """Which attempt of which execution streams."""
        self._cursors: dict[str, str] = {}
        self._leases: dict[str, tuple[LeaseStart, ...]] = {}
        self._shown: dict[str, Counter[str]] = {}
        """How many frames of the present lease of an execution were told, by the step that emitted them."""
        self._writing = ""
        """Whose text stands on the last line."""
        self._away = False

    async def skip(self) -> None:
        """Leave out what has happened by now."""
        self._position = (await self._store.read(ReadFeed(after=MAX_INT, limit=1))).last

    def tell(self, at: int, who: str, what: str, colour: str = "") -> None:
        """Write one line: when, who, what."""
        self._screen.paragraph(what, colour, *self._head(at, who))

    def _head(self, at: int, who: str) -> tuple[str, int]:
        """Return the beginning of a line, and how wide it is."""
        clock, name = f"{(at - self._started) / 1000:6.2f}s", f"  {who:<18}  "
        return self._screen.paint(clock, "dim") + name, len(clock + name)

    async def run(self) -> None:
        """Tell until cancelled; sleep while nothing happens, and try again while the store is away."""
        while True:
            try:
                await self._follow()
            except FlowFabricError as error:
                if not transient(error):
                    raise
                if not self._away:
                    self._away = True
                    self._screen.paragraph(f"the store is away: {error}", "red")
                await asyncio.sleep(LOOK_SECONDS)

    async def _follow(self) -> None:
        while True:
            watched = self._watched()
            async with self._store.subscribe(["feed", *(f"execution:{each}" for each in watched)]) as woken:
                await self.catch_up()
                while self._watched() == watched:
                    await woken.wait(LOOK_SECONDS)
                    await self.catch_up()

    def _watched(self) -> tuple[str, ...]:
        return tuple(itertools.islice(self._running, STREAMS))

    async def catch_up(self) -> None:
        """Tell everything that has happened by now."""
        while entries := await self._news():
            for entry in entries:
                await self._entry(entry)
                self._position = entry.position
        for execution_id in self._watched():
            with suppress(NotFound):  # removed meanwhile
                await self._frames(execution_id, MAX_INT, MAX_INT)

    async def _news(self) -> tuple[FeedEntry, ...]:
        entries = (await self._store.read(ReadFeed(after=self._position))).entries
        if self._away:
            self._away = False
            self._screen.line("the store is back")
        return entries

    async def _entry(self, entry: FeedEntry) -> None:
        event, execution_id = entry.event, entry.execution_id
        name = self._names.setdefault(execution_id, f"{entry.execution_kind} {short_id(execution_id)[:6]}")
        if execution_id in self._running:
            with suppress(NotFound):
                await self._frames(execution_id, event.at, event.lease_epoch - (event.event in CLAIMS))
        superseded = await self._superseded(entry)
        if event.attempt_index >= 0 and self._running.get(execution_id) != event.attempt_index:
            self._running[execution_id] = event.attempt_index
            self._cursors.pop(execution_id, None)
        await self._line(entry, name)
        if superseded is not None:
            self._tell_superseded(entry, name, superseded)
        if event.to_state in TERMINAL_STATES:
            for known in (self._running, self._cursors, self._names, self._leases, self._shown):
                known.pop(execution_id, None)
        await self._hears(entry, name)

    async def _line(self, entry: FeedEntry, name: str) -> None:
        event = entry.event
        if self._documents is not None:
            which = {"execution_id": entry.execution_id, "execution_kind": entry.execution_kind}
            self._documents.json(which | EventView.of(event).to_dict())
            return
        colour, sentence = SENTENCES.get(event.event, ("", lambda event: event.event))
        more = ""
        with suppress(NotFound):
            more = await self._more(entry)
        self.tell(event.at, name, sentence(event) + more, colour)

    async def _more(self, entry: FeedEntry) -> str:
        """Say what the line of history does not."""
        execution_id = entry.execution_id
        if entry.event.event == "reclaimed":
            steps = [each.name async for each in every_step(self._store, execution_id)]
            return f", which passes the finished steps: {', '.join(steps)}" if steps else ""
        if entry.event.event == "completed":
            result = (await self._store.read(GetResult(execution_id=execution_id))).result
            text = result.data.decode("utf-8", "replace") if result is not None else ""
            return f": {text if len(text) <= LONG else f'{text[:LONG]}…'}" if text else ""
        return ""

    async def _superseded(self, entry: FeedEntry) -> Superseded | None:
        """Return what of the frames that were told counts no more, because a newer lease begins."""
        execution_id = entry.execution_id
        if entry.event.event not in CLAIMS or execution_id not in self._shown:
            return None
        last = parse_entry_id("entry_id", self._cursors[execution_id])
        lease = lease_of(self._leases[execution_id], last)
        if lease is None:
            return None
        with suppress(NotFound):
            supersession = Supersession(self._store.read, execution_id)
            return await supersession.lease_ended(self._running[execution_id], lease, last)
        return None

    def _tell_superseded(self, entry: FeedEntry, name: str, found: Superseded) -> None:
        shown = self._shown.pop(entry.execution_id)
        count, total = sum(shown[step] for step in shown if step not in found.kept_steps), shown.total()
        if self._documents is not None:
            self._documents.json({"execution_id": entry.execution_id, "event": "superseded"} | found.fields())
        elif count:
            frames = "frame" if total == 1 else f"{total} frames"
            which = f"its last {frames}" if count == total else f"{count} of its last {frames}"
            kept = " (not those of stored steps)" if count < total else ""
            verb = "is" if count == 1 else "are"
            self.tell(entry.event.at, name, f"the handler runs again: {which} {verb} superseded{kept}", "dim")

    async def _frames(self, execution_id: str, until: int, newest: int) -> None:
        """Tell the frames of the current attempt that were appended before a time, and under no newer lease."""
        while True:
            page = await self._store.read(
                TailStream(
                    execution_id=execution_id, attempt_index=self._running[execution_id],
                    after=self._cursors.get(execution_id, "0-0"), count=FRAME_READ_MAX,
                )
            )  # fmt: skip
            frames = [
                view for view in page.frames if view.frame.ms <= until and view.frame.lease_epoch <= newest
            ]
            if frames:
                self._cursors[execution_id] = frames[-1].entry_id
                self._leases[execution_id] = page.leases
                self._shown.setdefault(execution_id, Counter()).update(view.frame.step for view in frames)
                self._show(execution_id, frames)
            if not frames or len(frames) < len(page.frames):
                return

    def _show(self, execution_id: str, frames: list[FrameView]) -> None:
        name = self._names[execution_id]
        if self._documents is not None:
            attempt = self._running[execution_id]
            for view in frames:
                told = frame_document(frame_of(view, attempt))
                self._documents.json({"execution_id": execution_id} | told)
            return
        for kind, group in itertools.groupby(frames, lambda view: view.frame.frame_type):
            shown = [(view.frame.ms, view.frame.payload.decode("utf-8", "replace")) for view in group]
            if kind == PIECE:
                self._write(execution_id, shown[0][0], "".join(text for _, text in shown))
                continue
            for at, text in shown:
                self.tell(at, name, f"» {text}", "blue")

    def _write(self, execution_id: str, at: int, text: str) -> None:
        """Write a piece of text: on a terminal behind the piece before, elsewhere on a line of its own."""
        goes_on = self._screen.open and self._writing == execution_id
        if not goes_on:
            self._screen.close_line()
            self._writing = execution_id
            text = f"» {text}"
        self._screen.write(text, "blue", *self._head(at, self._names[execution_id]))
