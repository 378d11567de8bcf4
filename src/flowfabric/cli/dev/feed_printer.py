"""Print what happens in a store while it happens: events from the feed, frames from the streams."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from flowfabric.app.views import frame_of
from flowfabric.cli.dev.event_text import describe_event
from flowfabric.cli.support.documents import frame_document
from flowfabric.cli.support.output import Output
from flowfabric.cli.support.text import short_id
from flowfabric.engine import every_step
from flowfabric.engine.superseded import Supersession
from flowfabric.model.errors import FlowFabricError, NotFound
from flowfabric.model.ids import parse_entry_id
from flowfabric.model.limits import FRAME_READ_MAX, MAX_INT
from flowfabric.model.operations.read import GetResult
from flowfabric.model.operations.read_list import FeedEntry, ReadFeed
from flowfabric.model.operations.stream import FrameView, TailStream
from flowfabric.model.records import LeaseStart
from flowfabric.model.state import TERMINAL_STATES
from flowfabric.model.superseded import Superseded, lease_of
from flowfabric.storage.base import Upkeep
from flowfabric.wire.views import EventView
from flowfabric.worker.outbox import is_transient

POLL_SECONDS: Final = 1.0
"""How often the feed is read without a notification, and how soon after an error."""
MAX_STREAMS: Final = 50
"""The number of executions whose frames are printed; of more, only events are."""
MAX_RESULT_LENGTH: Final = 100
TEXT_PIECE: Final = "token"
"""The type of frames that are pieces of one text and are printed on one line."""

CLAIMS: Final = frozenset({"claimed", "reclaimed", "resumed_claim"})
"""Events that begin a lease."""

Listener = Callable[[FeedEntry, str], Awaitable[None]]


class FeedPrinter:
    """Prints every event and frame of a store, as text or as JSON.

    `listener` is called with every entry of the feed and the name of its execution, after it was printed.
    """

    def __init__(
        self, store: Upkeep, output: Output, listener: Listener, documents: Output | None = None
    ) -> None:
        self._store = store
        self._output = output
        self._documents = documents
        """Where JSON documents are printed; None if text is printed instead."""
        self._listener = listener
        self._started_at = store.now()
        self._position = 0
        self._names: dict[str, str] = {}
        self._running: dict[str, int] = {}
        """The current attempt of each execution that has begun."""
        self._cursors: dict[str, str] = {}
        self._leases: dict[str, tuple[LeaseStart, ...]] = {}
        self._shown: dict[str, Counter[str]] = {}
        """The number of frames of the current lease that were printed, per execution and step."""
        self._open_execution = ""
        """The execution whose text is on the open line."""
        self._is_unreachable = False

    async def skip(self) -> None:
        """Skip everything that has happened so far."""
        self._position = (await self._store.read(ReadFeed(after=MAX_INT, limit=1))).last

    def print_line(self, at: int, who: str, what: str, colour: str = "") -> None:
        """Print one line: when, who, what."""
        self._output.paragraph(what, colour, *self._head(at, who))

    def _head(self, at: int, who: str) -> tuple[str, int]:
        """Return the beginning of a line and its width."""
        clock, name = f"{(at - self._started_at) / 1000:6.2f}s", f"  {who:<18}  "
        return self._output.paint(clock, "dim") + name, len(clock + name)

    async def run(self) -> None:
        """Print until cancelled; retry while the store is unreachable."""
        while True:
            try:
                await self._follow()
            except FlowFabricError as error:
                if not is_transient(error):
                    raise
                if not self._is_unreachable:
                    self._is_unreachable = True
                    self._output.paragraph(f"the store is unreachable: {error}", "red")
                await asyncio.sleep(POLL_SECONDS)

    async def _follow(self) -> None:
        while True:
            watched = self._watched()
            async with self._store.subscribe(["feed", *(f"execution:{each}" for each in watched)]) as woken:
                await self.catch_up()
                while self._watched() == watched:
                    await woken.wait(POLL_SECONDS)
                    await self.catch_up()

    def _watched(self) -> tuple[str, ...]:
        return tuple(itertools.islice(self._running, MAX_STREAMS))

    async def catch_up(self) -> None:
        """Print everything that has happened so far."""
        while entries := await self._read_feed():
            for entry in entries:
                await self._print_entry(entry)
                self._position = entry.position
        for execution_id in self._watched():
            with suppress(NotFound):  # purged meanwhile
                await self._print_frames(execution_id, MAX_INT, MAX_INT)

    async def _read_feed(self) -> tuple[FeedEntry, ...]:
        entries = (await self._store.read(ReadFeed(after=self._position))).entries
        if self._is_unreachable:
            self._is_unreachable = False
            self._output.line("the store is reachable again")
        return entries

    async def _print_entry(self, entry: FeedEntry) -> None:
        event, execution_id = entry.event, entry.execution_id
        name = self._names.setdefault(execution_id, f"{entry.execution_kind} {short_id(execution_id)[:6]}")
        if execution_id in self._running:
            with suppress(NotFound):
                await self._print_frames(execution_id, event.at, event.lease_epoch - (event.event in CLAIMS))
        superseded = await self._find_superseded(entry)
        if event.attempt_index >= 0 and self._running.get(execution_id) != event.attempt_index:
            self._running[execution_id] = event.attempt_index
            self._cursors.pop(execution_id, None)
        await self._print_event(entry, name)
        if superseded is not None:
            self._print_superseded(entry, name, superseded)
        if event.to_state in TERMINAL_STATES:
            for known in (self._running, self._cursors, self._names, self._leases, self._shown):
                known.pop(execution_id, None)
        await self._listener(entry, name)

    async def _print_event(self, entry: FeedEntry, name: str) -> None:
        event = entry.event
        if self._documents is not None:
            which = {"execution_id": entry.execution_id, "execution_kind": entry.execution_kind}
            self._documents.json(which | EventView.of(event).to_dict())
            return
        text, colour = describe_event(event)
        with suppress(NotFound):
            text += await self._details(entry)
        self.print_line(event.at, name, text, colour)

    async def _details(self, entry: FeedEntry) -> str:
        """Return what the event itself does not have: the stored steps, or the result."""
        execution_id = entry.execution_id
        if entry.event.event == "reclaimed":
            steps = [each.name async for each in every_step(self._store, execution_id)]
            return f", which passes the finished steps: {', '.join(steps)}" if steps else ""
        if entry.event.event == "completed":
            result = (await self._store.read(GetResult(execution_id=execution_id))).result
            text = result.data.decode("utf-8", "replace") if result is not None else ""
            return (
                f": {text if len(text) <= MAX_RESULT_LENGTH else f'{text[:MAX_RESULT_LENGTH]}…'}"
                if text
                else ""
            )
        return ""

    async def _find_superseded(self, entry: FeedEntry) -> Superseded | None:
        """Return which of the printed frames are superseded, because a newer lease begins."""
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

    def _print_superseded(self, entry: FeedEntry, name: str, found: Superseded) -> None:
        shown = self._shown.pop(entry.execution_id)
        count, total = sum(shown[step] for step in shown if step not in found.kept_steps), shown.total()
        if self._documents is not None:
            self._documents.json({"execution_id": entry.execution_id, "event": "superseded"} | found.fields())
        elif count:
            frames = "frame" if total == 1 else f"{total} frames"
            which = f"its last {frames}" if count == total else f"{count} of its last {frames}"
            kept = " (not those of stored steps)" if count < total else ""
            verb = "is" if count == 1 else "are"
            self.print_line(
                entry.event.at, name, f"the handler runs again: {which} {verb} superseded{kept}", "dim"
            )

    async def _print_frames(self, execution_id: str, until: int, last_epoch: int) -> None:
        """Print the frames of the current attempt until a time and a lease epoch, both included."""
        while True:
            page = await self._store.read(
                TailStream(
                    execution_id=execution_id,
                    attempt_index=self._running[execution_id],
                    after=self._cursors.get(execution_id, "0-0"),
                    count=FRAME_READ_MAX,
                )
            )
            frames = [
                view
                for view in page.frames
                if view.frame.ms <= until and view.frame.lease_epoch <= last_epoch
            ]
            if frames:
                self._cursors[execution_id] = frames[-1].entry_id
                self._leases[execution_id] = page.leases
                self._shown.setdefault(execution_id, Counter()).update(view.frame.step for view in frames)
                self._show_frames(execution_id, frames)
            if not frames or len(frames) < len(page.frames):
                return

    def _show_frames(self, execution_id: str, frames: list[FrameView]) -> None:
        name = self._names[execution_id]
        if self._documents is not None:
            attempt = self._running[execution_id]
            for view in frames:
                document = frame_document(frame_of(view, attempt))
                self._documents.json({"execution_id": execution_id} | document)
            return
        for kind, group in itertools.groupby(frames, lambda view: view.frame.frame_type):
            shown = [(view.frame.ms, view.frame.payload.decode("utf-8", "replace")) for view in group]
            if kind == TEXT_PIECE:
                self._print_piece(execution_id, shown[0][0], "".join(text for _, text in shown))
                continue
            for at, text in shown:
                self.print_line(at, name, f"» {text}", "blue")

    def _print_piece(self, execution_id: str, at: int, text: str) -> None:
        """Print a piece of text: on a terminal after the previous piece, elsewhere on its own line."""
        continues = self._output.is_line_open and self._open_execution == execution_id
        if not continues:
            self._output.close_line()
            self._open_execution = execution_id
            text = f"» {text}"
        self._output.write(text, "blue", *self._head(at, self._names[execution_id]))
