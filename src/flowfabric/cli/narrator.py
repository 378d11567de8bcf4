"""Tells what happens to some executions while it happens: history from the feed, frames from the streams."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from flowfabric.cli.screen import Screen
from flowfabric.model.contracts.reads import FeedEntry, ReadFeed, TailStream
from flowfabric.model.ids import parse_entry_id
from flowfabric.model.limits import MAX_INT
from flowfabric.model.records import Event
from flowfabric.storage.base import Upkeep

LOOK_SECONDS: Final = 1.0


def _worker(event: Event) -> str:
    return dict(event.details).get("worker_id", event.actor)


SENTENCES: Final[dict[str, tuple[str, Callable[[Event], str]]]] = {
    "created": ("", lambda _: "submitted"),
    "claimed": ("cyan", lambda event: f"claimed by {event.actor}"),
    "step": ("", lambda event: f"step {dict(event.details)['name']} stored"),
    "completed": ("green", lambda _: "completed"),
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
    """Follows named executions."""

    def __init__(self, store: Upkeep, screen: Screen) -> None:
        self._store = store
        self._screen = screen
        self._started = store.now()
        self._names: dict[str, str] = {}
        self.follow_all = False
        """Whether executions that nobody named are told of, too."""
        self._position = 0
        self._one_at_a_time = asyncio.Lock()
        self._attempts: dict[str, int] = {}
        self._cursors: dict[tuple[str, int], str] = {}
        self.seen: list[tuple[str, str]] = []
        """Name and event of everything told so far."""

    def follow(self, execution_id: str, name: str) -> None:
        """Tell of this execution too."""
        self._names[execution_id] = name

    async def skip(self) -> None:
        """Leave out what has happened by now."""
        self._position = (await self._store.read(ReadFeed(after=MAX_INT, limit=1))).last

    def tell(self, at: int, who: str, what: str, colour: str = "") -> None:
        """Write one line: when, who, what."""
        clock = self._screen.paint(f"{(at - self._started) / 1000:6.2f}s", "dim")
        self._screen.line(f"{clock}  {who:<12} {self._screen.paint(what, colour)}")

    async def run(self) -> None:
        """Tell until cancelled; sleep while nothing happens."""
        topics = ["feed", *(f"execution:{execution_id}" for execution_id in self._names)]
        async with self._store.subscribe(topics) as woken:
            while True:
                await self.catch_up()
                await woken.wait(LOOK_SECONDS)

    async def catch_up(self) -> None:
        """Tell everything that has happened by now."""
        async with self._one_at_a_time:
            await self._catch_up()

    async def _catch_up(self) -> None:
        while True:
            page = await self._store.read(ReadFeed(after=self._position))
            for entry in page.entries:
                if self.follow_all:
                    self._names.setdefault(entry.execution_id, entry.execution_id[-8:])
                if entry.execution_id in self._names:
                    await self._entry(entry)
            if not page.entries:
                break
            self._position = page.entries[-1].position
        for execution_id in self._attempts:
            await self._frames(execution_id, MAX_INT)

    async def _entry(self, entry: FeedEntry) -> None:
        event = entry.event
        await self._frames(entry.execution_id, event.at)
        if event.attempt_index >= 0:
            self._attempts[entry.execution_id] = event.attempt_index
        colour, sentence = SENTENCES.get(event.event, ("", lambda event: event.event))
        self.tell(event.at, self._names[entry.execution_id], sentence(event), colour)
        self.seen.append((self._names[entry.execution_id], event.event))

    async def _frames(self, execution_id: str, until: int) -> None:
        """Tell the frames of the current attempt that were appended before a time."""
        key = (execution_id, self._attempts.get(execution_id, 0))
        after = self._cursors.get(key, "0-0")
        page = await self._store.read(
            TailStream(execution_id=execution_id, attempt_index=key[1], after=after)
        )
        for view in page.frames:
            at, _ = parse_entry_id("entry_id", view.entry_id)
            if at > until:
                return
            self._cursors[key] = view.entry_id
            self.tell(at, self._names[execution_id], f"» {view.frame.payload.decode()}", "blue")
