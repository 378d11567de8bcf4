"""Stores whose numbers have gaps, beside the bare machine, which counts: each number stands for one of the machine's.

A cluster gives out numbers that follow its clocks. Which of the machine's numbers each stands for is learned after
every action from what it numbers: an execution, a line of history, a waitpoint. The order must be the same; so every
cursor that is sent and every number that is answered can be put into the other store's terms, and all else is compared
as it is. Only what commands write that are sent together, to different partitions, may be in another order: it is left
out of pages, and compared in the dump.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import Any

from msgspec.structs import replace

from flowfabric.model.command import Command
from flowfabric.model.limits import MAX_INT
from flowfabric.model.operations.read_list import ExecutionPage, FeedEntry, FeedPage, ListExecutions, ReadFeed
from flowfabric.model.operations.signal import InboxPage, ReadInbox
from flowfabric.storage.base import Dump
from flowfabric.storage.memory import MemoryStore
from flowfabric.storage.valkey import ClusterStore, keys
from flowfabric.storage.valkey.lists import scored
from flowfabric.storage.valkey.load import feed_entry
from flowfabric.storage.valkey.requests import EACH, Gathered, Plan
from support.simulation.compare import Disagreement

Named = list[tuple[int, Any]]
"""Numbers, and what each of them numbers."""


class Order:
    """One sequence of numbers, in both stores."""

    def __init__(self, what: str, *, returns: bool = False) -> None:
        self.what = what
        self._returns = returns
        """Whether things come back: then they are last in the other store, and at their old place on the machine."""
        self._theirs: list[int] = []
        self._ours: list[int] = []
        self._named: dict[int, int] = {}
        self.mixed: set[int] = set()
        """Numbers of the machine for things whose order is another one in the other store."""

    def learn(self, theirs: Named, ours: Named, *, together: bool) -> None:
        """Pair what is new; what was numbered later, and not together with it, has a greater number in both."""
        known = len(self._ours)
        new: defaultdict[Any, list[int]] = defaultdict(list)
        for number, thing in sorted(ours):
            if not known or number > self._ours[-1]:
                new[thing].append(number)
        found: list[int] = []
        for number, thing in sorted(theirs):
            if number in self._named:
                continue
            if not new[thing] and self._returns:
                self._named[number] = 0
                self.mixed.add(0)
                continue
            if not new[thing]:
                raise Disagreement(f"numbers differ: {self.what}", f"{thing} is not new on the bare machine")
            if known and number < self._theirs[known - 1]:
                raise Disagreement(f"order differs: {self.what}", f"{thing} has a number from before")
            found.append(new[thing].pop(0))
            self._named[number] = found[-1]
            self._theirs.append(number)
        self._ours += sorted(found)
        mixed = {number for number, place in zip(found, sorted(found), strict=True) if number != place}
        if mixed and not together:
            raise Disagreement(f"order differs: {self.what}", f"{found}")
        self.mixed |= mixed

    def ours(self, number: int) -> int:
        """Return where a number of the other store stands in ours."""
        if number in {0, MAX_INT}:
            return number
        at = bisect_left(self._theirs, number)
        return self._ours[at] if self._theirs[at : at + 1] == [number] else -number

    def same(self, number: int) -> int:
        """Return our number for the thing that has a number in the other store."""
        return self._named[number]

    def after(self, number: int) -> int:
        """Return the other store's cursor behind which the same things come."""
        at = bisect_right(self._ours, number)
        return self._theirs[at - 1] if at else 0

    def before(self, number: int) -> int:
        """Return the other store's cursor before which the same things come."""
        at = bisect_left(self._ours, number)
        return self._theirs[at] if at < len(self._theirs) else MAX_INT


class Renaming:
    """A cluster in the terms of the bare machine."""

    def __init__(self, first: MemoryStore, other: ClusterStore) -> None:
        self._tables = first.tables
        self._other = other
        self._arrivals = Order("arrivals")
        self._feed = Order("lines of the feed")
        self._inbox = Order("open waitpoints", returns=True)

    async def learn(self, *, together: bool) -> None:
        """Take in what an action has numbered."""
        arrivals, feed, inbox = await self._other.carry_out(_numbered())
        tables = self._tables
        came = [(place, id_) for id_, place in tables.order.items()]
        lines: list[FeedEntry] = [*tables.feed, *tables.records["past"].values()]
        told = [(line.position, (line.execution_id, line.event.seq)) for line in lines]
        opened = [(place, "\0".join(key)) for key, place in tables.waitpoint_order.items()]
        self._arrivals.learn(arrivals, came, together=together)
        self._feed.learn(feed, told, together=together)
        self._inbox.learn(inbox, opened, together=together)

    def ask(self, command: Command[Any]) -> Command[Any]:
        """Put a question into the other store's terms."""
        if isinstance(command, ReadFeed):
            return replace(command, after=self._feed.after(command.after))
        if isinstance(command, ReadInbox):
            return replace(command, after=self._inbox.after(command.after))
        if isinstance(command, ListExecutions) and command.after:
            turn = self._arrivals.before if command.newest_first else self._arrivals.after
            # Nothing comes before the first: 0 would mean that all do.
            return replace(command, after=turn(command.after) or 1)
        return command

    def answer(self, command: Command[Any], reply: Any) -> Any:
        """Put an answer into the machine's terms."""
        if isinstance(reply, FeedPage) and isinstance(command, ReadFeed):
            entries = tuple(self._line(entry) for entry in reply.entries)
            stands = self._feed.ours(reply.next) if entries else command.after
            page = FeedPage(entries, stands, self._feed.ours(reply.floor), self._feed.ours(reply.last))
            return self.comparable(page)
        if isinstance(reply, InboxPage):
            return self.comparable(replace(reply, next=self._inbox.ours(reply.next)))
        if isinstance(reply, ExecutionPage):
            return self.comparable(replace(reply, next=self._arrivals.ours(reply.next)))
        return reply

    def comparable(self, reply: Any) -> Any:
        """Leave out what the stores may have in another order."""
        if isinstance(reply, FeedPage):
            kept = tuple(line for line in reply.entries if line.position not in self._feed.mixed)
            return replace(reply, entries=kept)
        if isinstance(reply, InboxPage) and self._inbox.mixed:
            return None
        if isinstance(reply, ExecutionPage) and self._arrivals.mixed:
            return None
        return reply

    def dump(self, contents: Dump) -> Dump:
        """Put contents into the machine's terms."""
        past = contents.records.get("past", {})
        renamed = {(line.position,): line for line in map(self._line, past.values())}
        records = {kind: rows for kind, rows in contents.records.items() if kind != "past"}
        return replace(contents, records=records | ({"past": renamed} if renamed else {}))

    def _line(self, entry: FeedEntry) -> FeedEntry:
        return replace(entry, position=self._feed.same(entry.position))


def _numbered() -> Plan[tuple[Named, Named, Named]]:
    arrivals: Gathered
    arrivals, feed, inbox = yield [
        (EACH, "XRANGE", keys.ARRIVALS, "-", "+"),
        (EACH, "XRANGE", keys.FEED, "-", "+"),
        (EACH, "ZRANGE", keys.INBOX, 0, -1, "WITHSCORES"),
    ]
    came = [(int(row[0][2:]), row[1][1].decode()) for reply in arrivals.replies for row in reply]
    lines = [feed_entry(row) for reply in feed.replies for row in reply]
    told = [(line.position, (line.execution_id, line.event.seq)) for line in lines]
    return came, told, [row for reply in inbox.replies for row in scored(reply)]
