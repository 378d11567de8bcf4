"""The live feed of one execution: its history and the frames of every attempt, told as one story.

A place in it is a place in both logs: `<history seq>.<attempt>.<entry id>`. Until an attempt has been announced its
entry is `0-0`, from then on until its first frame `0-1`; both are smaller than the id of any frame. The end stands
behind every possible frame, so that a reader who saw it is known. An entry that was told to be superseded is marked.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.engine.superseded import Supersession
from flowfabric.model.errors import NotFound
from flowfabric.model.ids import entry_id
from flowfabric.model.limits import MAX_INT
from flowfabric.model.operations.read import GetExecution, ListAttempts, ReadHistory
from flowfabric.model.operations.stream import FrameView, TailStream
from flowfabric.model.records import Event, Execution, Frame, LeaseStart
from flowfabric.model.state import TERMINAL_STATES
from flowfabric.model.superseded import Superseded, Told, lease_of, mark_told, unmark_told
from flowfabric.server.access.fences import seen_by
from flowfabric.server.access.roles import Principal
from flowfabric.server.http.pieces import FIRST, GROWTH, MOST, kept
from flowfabric.server.live.feed import Live
from flowfabric.server.live.sse import CHUNK_BYTES, PING, message
from flowfabric.wire.errors import bad_request
from flowfabric.wire.stream import frame_fields
from flowfabric.wire.views import EventView

_PLACE: Final = re.compile(r"(\d{1,16})\.(\d{1,16})\.(\d{1,16})-(\d{1,16})", re.ASCII)
_UNANNOUNCED: Final = (0, 0)
_ANNOUNCED: Final = (0, 1)
_ENDED_UNANNOUNCED: Final = (MAX_INT, 0)
_ENDED: Final = (MAX_INT, 1)
_OPENERS: Final = frozenset({"claimed", "reclaimed", "resumed_claim"})
"""Lines that begin a lease: its frames come after them, even those of the same millisecond."""
LINES: Final = 200


class Place(Struct, frozen=True):
    """How far both logs were told."""

    seq: int = 0
    attempt: int = 0
    entry: tuple[int, int] = _UNANNOUNCED

    def __str__(self) -> str:
        return f"{self.seq}.{self.attempt}.{entry_id(*self.entry)}"

    def told(self, run: Execution) -> bool:
        """Whether everything was told, the end included."""
        ended = run.public_state in TERMINAL_STATES and run.event_count <= self.seq
        return ended and self.entry[0] == MAX_INT

    @property
    def announced(self) -> bool:
        """Whether the attempt was announced."""
        return self.entry not in {_UNANNOUNCED, _ENDED_UNANNOUNCED}

    @property
    def frame(self) -> tuple[int, int] | None:
        """The last frame that was told, if it is not known to be superseded."""
        entry, told = unmark_told(self.entry)
        return None if told or entry <= _ANNOUNCED or entry[0] == MAX_INT else entry

    @property
    def after(self) -> str:
        """Behind which entry the frames go on."""
        return entry_id(*unmark_told(self.entry)[0])


def parse_place(text: str) -> Place:
    """Read an id that was sent before; empty: the beginning."""
    if not text:
        return Place()
    found = _PLACE.fullmatch(text)
    numbers = [int(part) for part in found.groups()] if found else [MAX_INT + 1]
    if max(numbers) > MAX_INT:
        raise bad_request("Last-Event-ID: not an id of this feed", field="last_event_id")
    seq, attempt, ms, number = numbers
    return Place(seq, attempt, (ms, number))


class Story:
    """One reader of one execution."""

    def __init__(self, live: Live, execution_id: str, place: Place, principal: Principal) -> None:
        self._live = live
        self._principal = principal
        self._execution_id = execution_id
        self._place = place
        self._state = ""
        self._over = False
        self._progress: tuple[int, int, str] = (0, 0, "")
        self._progressed: Execution | None = None
        self._frames: list[FrameView] = []
        """Frames of the present attempt that were read and not told yet."""
        self._count = FIRST
        """How many frames are read next: large ones are read a few at a time."""
        self._drained = False
        """Whether nothing follows those frames, as far as the last look goes."""
        self._leases: tuple[LeaseStart, ...] = ()
        """Which leases have appended to the stream of the present attempt, as far as the last look goes."""
        self._lease_epoch = 0
        """The newest lease whose beginning was told; frames of newer ones wait for it."""
        self._supersession = Supersession(live.read, execution_id)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Tell it from the place on until it ends; messages are joined where many come at once."""
        store = self._live.store
        async with store.subscribe([f"execution:{self._execution_id}"]) as woken:
            while True:
                text = bytearray()
                async for part in self._news():
                    text += part
                    if len(text) >= CHUNK_BYTES:
                        yield bytes(text)
                        text.clear()
                if text:
                    yield bytes(text)
                if self._over:
                    return
                if not await woken.wait(self._live.heartbeat_seconds):
                    yield PING

    async def _news(self) -> AsyncIterator[bytes]:
        """Tell what is new."""
        try:
            run = await self._live.read(GetExecution(execution_id=self._execution_id))
            await self._note_progress(run)
            if run.event_count > self._place.seq:
                async for part in self._lines():
                    yield part
            elif not self._state:  # it goes on where an earlier reader stopped
                self._state = run.public_state
            if self._state in TERMINAL_STATES:
                self._over = True
                yield self._progress_until(MAX_INT) + await self._end()
                return
            self._lease_epoch = max(self._lease_epoch, run.current_lease_epoch)
            if run.has_stream:
                self._drained = False
                async for part in self._frames_until(None):
                    yield part
            yield self._progress_until(MAX_INT)
        except NotFound:  # its time was over while somebody listened
            self._over = True
            yield message("end", {"execution_id": self._execution_id, "public_state": None})

    async def _note_progress(self, run: Execution) -> None:
        now = (run.progress_updated_at, run.progress_pct, run.progress_message)
        if not run.progress_updated_at or now == self._progress:
            return
        first, self._progress = not self._progress[0], now
        if first and run.progress_updated_at < await self._told_until():
            return  # it came before what the reader has seen last
        self._progressed = run

    async def _told_until(self) -> int:
        """Return when that happened which was told last, by an earlier reader at this place."""
        if not self._place.seq:
            return 0
        question = ReadHistory(execution_id=self._execution_id, after=self._place.seq - 1, limit=1)
        lines = (await self._live.read(question)).events
        frame_at = self._place.entry[0] if self._place.entry[0] < MAX_INT else 0
        return max([frame_at, *(line.at for line in lines)])

    def _progress_until(self, at: int) -> bytes:
        """Tell progress that was not told yet, if it is no later; it is stored nowhere, so it has no place."""
        if self._progressed is None or self._progressed.progress_updated_at > at:
            return b""
        run, self._progressed = self._progressed, None
        return message(
            "progress",
            {
                "execution_id": run.execution_id,
                "attempt_index": run.attempt.index,
                "pct": run.progress_pct if run.progress_pct >= 0 else None,
                "message": run.progress_message,
                "at": run.progress_updated_at,
            },
        )

    async def _lines(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            page = await self._live.read(
                ReadHistory(execution_id=self._execution_id, after=self._place.seq, limit=LINES)
            )
            self._drained = False  # lines were added, and frames before them
            for event in page.events:
                async for part in self._line(event):
                    yield part
            more = bool(page.next)

    async def _line(self, event: Event) -> AsyncIterator[bytes]:
        """Tell the frames before a line, then the line."""
        begins = event.event in _OPENERS
        self._lease_epoch = event.lease_epoch - 1 if begins else event.lease_epoch
        new = self._opens(event)
        until = None if new or begins or event.to_state in TERMINAL_STATES else event.at
        async for part in self._frames_until(until):
            yield part
        if begins:
            yield await self._superseded(event)
            self._lease_epoch = event.lease_epoch
        if new:
            yield await self._attempt(event)
        yield self._progress_until(event.at)
        self._place = replace(self._place, seq=event.seq)
        self._state = event.to_state
        if event.from_state != event.to_state:
            line = EventView.of(seen_by(self._principal, event)).to_dict()
            data = {"execution_id": self._execution_id, "public_state": event.to_state} | line
            yield message("state", data, str(self._place))

    def _opens(self, event: Event) -> bool:
        """Whether a line belongs to an attempt that was not announced yet."""
        if event.attempt_index < 0:
            return False
        return event.attempt_index > self._place.attempt or not self._place.announced

    async def _attempt(self, event: Event) -> bytes:
        """Announce an attempt; its place is before the line that opened it, which is still to come."""
        index = event.attempt_index
        question = ListAttempts(execution_id=self._execution_id)
        attempts = seen_by(self._principal, await self._live.read(question))
        known = {attempt.index: attempt for attempt in attempts}
        data: dict[str, Any] = {
            "execution_id": self._execution_id,
            "attempt_index": index,
            "attempt_type": "",
            "previous": None,
        }
        if (attempt := known.get(index)) is not None:
            data |= {
                "attempt_type": attempt.kind,
                "started_at": attempt.started_at,
                "worker_id": attempt.worker_id,
                "lease_epoch": event.lease_epoch,
            }
            if attempt.attempt_id:
                data["attempt_id"] = attempt.attempt_id
            if attempt.lineage_reason:
                data["reason"] = attempt.lineage_reason
        if (before := known.get(index - 1)) is not None:
            data["previous"] = {
                "attempt_index": before.index,
                "ended": before.life,
                "ended_at": before.ended_at or None,
                "reason": before.failure_reason or data.get("reason", ""),
                "category": before.failure_category,
            }
        self._place = Place(self._place.seq, index, _ANNOUNCED)
        self._frames, self._drained, self._leases = [], False, ()
        return message("attempt", data, str(self._place))

    async def _superseded(self, event: Event) -> bytes:
        """Say which of the frames that were told count no more, now that a lease begins."""
        found: Superseded | None = None
        replay_told = unmark_told(self._place.entry)[1] is Told.BY_REPLAY
        if event.attempt_index > self._place.attempt and self._place.announced and not replay_told:
            found = await self._supersession.replay_after(self._place.attempt)
        if found is None and (last := self._place.frame) is not None:
            lease = lease_of(self._leases, last)
            if lease is not None and lease.epoch < event.lease_epoch:
                found = await self._supersession.lease_ended(self._place.attempt, lease, last)
        if found is None:
            return b""
        self._place = replace(self._place, entry=mark_told(self._place.entry, found))
        data = {"execution_id": self._execution_id} | found.fields()
        return message("superseded", data, str(self._place))

    async def _frames_until(self, at: int | None) -> AsyncIterator[bytes]:
        """Tell frames of the present attempt: those up to a time, or all that there are."""
        if not self._place.announced:
            return
        while True:
            if not self._frames and not self._drained:
                await self._look()
            if not self._frames or not self._comes_before(self._frames[0].frame, at):
                return
            view = self._frames.pop(0)
            yield self._progress_until(view.frame.ms) + self._frame(view)

    def _comes_before(self, frame: Frame, at: int | None) -> bool:
        """Whether a frame is told before a line of a time; before that of a new lease come those of older ones."""
        return frame.lease_epoch <= self._lease_epoch and (at is None or frame.ms <= at)

    async def _look(self) -> None:
        """Read further frames, as many as are worth keeping."""
        question = TailStream(
            execution_id=self._execution_id,
            attempt_index=self._place.attempt,
            after=self._place.after,
            count=self._count,
        )
        page = await self._live.read_large(self._live.store.read(question))
        keep = kept(page.frames, CHUNK_BYTES)
        self._frames, self._leases = list(page.frames[:keep]), page.leases
        self._drained = len(page.frames) < self._count and keep == len(page.frames)
        self._count = keep if keep < len(page.frames) else min(MOST, GROWTH * self._count)

    def _frame(self, view: FrameView) -> bytes:
        self._place = replace(self._place, entry=(view.frame.ms, view.frame.seq))
        fields = frame_fields(view)
        data = {"attempt_index": self._place.attempt, "id": view.entry_id, "fields": fields} | fields
        data["lease_epoch"] = view.frame.lease_epoch
        return message("frame", data, str(self._place))

    async def _end(self) -> bytes:
        run = await self._live.read(GetExecution(execution_id=self._execution_id))
        self._place = replace(self._place, entry=_ENDED if self._place.announced else _ENDED_UNANNOUNCED)
        data: dict[str, Any] = {
            "execution_id": run.execution_id,
            "public_state": self._state,
            "attempt_index": run.attempt.index if run.attempt.index >= 0 else None,
            "at": run.completed_at or None,
        }
        if run.failure_reason:
            data["failure"] = {"reason": run.failure_reason, "category": run.failure_category}
        if run.cancellation_reason:
            data["cancellation_reason"] = run.cancellation_reason
        return message("end", data, str(self._place))
