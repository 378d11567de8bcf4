"""Subscriptions inside one process.

Topics are `lane:<lane>` (something became claimable), `execution:<id>` (its record, history or stream changed),
`worker:<instance>` (it may have lost a lease), `feed` (history was written) and `due` (something falls due earlier than
the engine knew). A topic that is published with its namespace (`of`) does not wake subscribers of other namespaces.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Container, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Final

from flowfabric.model.indexes import claimable
from flowfabric.model.limits import NEVER
from flowfabric.model.machine.workspace import Move, Workspace
from flowfabric.model.records import Execution
from flowfabric.model.state import Outcome, Ownership, Phase

EVERYTHING: Final = "*"
"""Wakes every listener; sent when the exact topics are too many or unknown."""
KINDS: Final = frozenset({"lane", "execution", "worker", "feed", "due"})
"""What stands before the name in a topic."""
_OF: Final = "\t"
_ACTIVE: Final = Phase.ACTIVE
_LEASED: Final = Ownership.LEASED
_TAKEN: Final = (Outcome.CANCELLED, Outcome.EXPIRED)


def of(topic: str, namespace: str) -> str:
    """Return the topic as published in one namespace."""
    return f"{topic}{_OF}{namespace}"


class Listener:
    """One subscription. It keeps a wake-up until its owner waits for it."""

    def __init__(self, topics: frozenset[str], namespace: str = "") -> None:
        self.topics = topics
        self.namespace = namespace
        """Only topics of this namespace, or of none, wake it; empty: all topics."""
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._woken: set[str] = set()

    async def wait(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - the wait itself is the purpose
        """Wait for a wake-up since the last wait; return False on timeout."""
        try:
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True

    def woken(self) -> tuple[str, ...]:
        """Return the topics that were published since the last call."""
        woken = tuple(self._woken)
        self._woken.clear()
        return woken

    def wake(self, topics: Iterable[str]) -> None:
        """Wake the owner with some of its topics; may be called from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._note, topics)
        except RuntimeError:  # its loop has ended; nobody waits there any more
            return

    def _note(self, topics: Iterable[str]) -> None:
        self._woken.update(topics)
        self._event.set()


class Hub:
    """All subscriptions of one store in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[str, set[Listener]] = {}
        self.kinds: dict[str, int] = {}
        """How many topics of each kind have subscribers in this process."""
        self.horizon = NEVER
        """The time of the engine's next timer; only what falls due earlier wakes it."""

    def expect(self, due_at: int) -> None:
        """Schedule the next timer no later than `due_at`; 0 cancels it."""
        with self._lock:
            self.horizon = min(self.horizon, due_at) if due_at else NEVER

    @asynccontextmanager
    async def subscribe(self, topics: Iterable[str], namespace: str = "") -> AsyncIterator[Listener]:
        """Subscribe to topics, in one namespace or in all, until the context ends."""
        listener = Listener(frozenset(topics), namespace)
        with self._lock:
            new = [topic for topic in listener.topics if topic not in self._listeners]
            for topic in new:
                self._listeners[topic] = set()
            for topic in listener.topics:
                self._listeners[topic].add(listener)
            self._count(new, 1)
        try:
            yield listener
        finally:
            with self._lock:
                for topic in listener.topics:
                    self._listeners[topic].discard(listener)
                gone = [topic for topic in listener.topics if not self._listeners[topic]]
                for topic in gone:
                    del self._listeners[topic]
                self._count(gone, -1)

    def _count(self, topics: list[str], n: int) -> None:
        for kind, count in Counter([topic.partition(":")[0] for topic in topics]).items():
            left = self.kinds.get(kind, 0) + n * count
            if left:
                self.kinds[kind] = left
            else:
                del self.kinds[kind]

    def publish(self, topics: Iterable[str], due_at: int = 0) -> None:
        """Wake the subscribers of the topics; may be called from any thread."""
        with self._lock:
            if not self._listeners:
                return
            woken: dict[Listener, list[str]] = {}
            for note in self._listeners if EVERYTHING in topics else topics:
                topic, _, namespace = note.partition(_OF)
                for listener in self._listeners.get(topic, ()):
                    if not namespace or listener.namespace in {"", namespace}:
                        woken.setdefault(listener, []).append(topic)
            if due_at and due_at < self.horizon and EVERYTHING not in topics:
                self.horizon = due_at
                for listener in self._listeners.get("due", ()):
                    woken.setdefault(listener, []).append("due")
        for listener, some in woken.items():
            listener.wake(some)


def topics_of(space: Workspace, kinds: Container[str] = KINDS) -> tuple[set[str], int]:
    """Return the topics of these kinds that a saved group publishes, and when the first thing in it falls due."""
    topics: set[str] = set()
    due_at = 0
    if "lane" in kinds:
        for (kind, key), _, _ in space.changes():
            if kind == "lane":
                topics.add(f"lane:{key[0]}")
    if "execution" in kinds:
        topics.update(f"execution:{move.execution_id}" for move in space.moves())
        topics.update(f"execution:{effect.key[0]}" for effect in space.effects if effect.kind == "frame")
    if "feed" in kinds and space.events:
        topics.update(_of_events(space))
    for move in space.moves():
        if at := _of_move(topics, move):
            due_at = min(due_at, at) if due_at else at
    return topics, due_at


def _of_events(space: Workspace) -> Iterator[str]:
    namespaces = {
        move.execution_id: run.namespace
        for move in space.moves()
        if (run := move.new or move.old) is not None
    }
    for execution_id, _ in space.events:
        namespace = namespaces.get(execution_id)
        yield "feed" if namespace is None else of("feed", namespace)


def _of_move(topics: set[str], move: Move) -> int:
    if move.new is None or move.entered is None:
        return 0
    if move.entered.claimable and (move.old is None or not claimable(move.old) or move.old.grant):
        topics.add(of(f"lane:{move.new.lane_id}", move.new.namespace))
    if move.old is not None and move.old.ownership_state is _LEASED:
        holder = move.old.current_worker_instance_id
        # In a group of commands its worker may have it back already, under another lease.
        kept = (
            holder == move.entered.lease_of and move.old.current_lease_epoch == move.new.current_lease_epoch
        )
        if not kept and _taken(move.new):
            topics.add(of(f"worker:{holder}", move.new.namespace))
    return move.entered.due_at


def _taken(run: Execution) -> bool:
    """Return True if the lease was revoked or expired, False if the holder ended it."""
    return run.lifecycle_phase is _ACTIVE or run.terminal_outcome in _TAKEN
