"""Which frames count no more.

A handler that runs again, after a wait or a crash, emits again what it emits outside its stored steps. So the frames of
a lease are superseded as soon as the next lease begins. Those emitted inside a step that the same lease stored are
kept: the step is passed from then on, and nobody emits them again. A replay goes further: it supersedes the frames of
all attempts before it, except those of the steps that it keeps.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

from msgspec import Struct

from flowfabric.model.ids import entry_id
from flowfabric.model.records import Event, Frame, LeaseStart

Entry = tuple[int, int]
"""The id of a frame: ms, seq."""
_MARK: Final = 2**51
"""Added to the second part of an entry in the position of a reader; no stream has so many frames in a millisecond."""


class Superseded(Struct, frozen=True):
    """Frames of one lease, from one to another, that a newer lease has superseded, except those of some steps."""

    attempt_index: int
    lease_epoch: int
    first: str
    """The id of the first frame; `start` when a replay supersedes everything before it."""
    last: str
    """The id of the last frame; `end` when a replay supersedes everything before it."""
    by_epoch: int
    kept_steps: tuple[str, ...]
    """What was emitted inside these steps still counts."""
    replayed: bool = False
    """Whether the attempts before this one are superseded, too."""

    def fields(self) -> dict[str, Any]:
        """Return what is told to readers."""
        told: dict[str, Any] = {
            "attempt_index": self.attempt_index,
            "lease_epoch": self.lease_epoch,
            "from": self.first,
            "to": self.last,
            "by_epoch": self.by_epoch,
            "kept_steps": list(self.kept_steps),
        }
        return told | ({"replayed": True} if self.replayed else {})


class StoredSteps:
    """Which lease stored which step, as the history of an execution says; steps that a replay dropped are forgotten."""

    def __init__(self) -> None:
        self.seq = 0
        """The last line that was taken in."""
        self._leases: dict[str, int] = {}
        """By the name of a step; 0 for waits, in which nothing is emitted."""
        self._began: dict[int, int] = {}
        """The first lease of each attempt."""
        self._replayed: set[int] = set()

    def add(self, event: Event) -> None:
        """Take in the next line."""
        self.seq = event.seq
        self._began.setdefault(event.attempt_index, event.lease_epoch)
        details = dict(event.details)
        if event.event == "step":
            self._leases[details["name"]] = event.lease_epoch
        elif "step_name" in details:
            self._leases.setdefault(details["step_name"], 0)
        elif event.event == "replayed":
            self._replayed.add(event.attempt_index)
            if "keep_steps" not in details:
                self._drop(details.get("from_step", ""))

    def _drop(self, first: str) -> None:
        names = list(self._leases)
        for name in names[names.index(first) if first in self._leases else 0 :]:
            del self._leases[name]

    def counts(self, frame: Frame, lease_epoch: int) -> bool:
        """Whether a frame still counts while a lease is the newest one."""
        is_newest = not frame.lease_epoch or frame.lease_epoch >= lease_epoch
        return is_newest or bool(frame.step and self._leases.get(frame.step) == frame.lease_epoch)

    def replay_after(self, attempt_index: int) -> Superseded | None:
        """Return what the replay that followed an attempt has superseded; none: no replay did, or it waits."""
        by_epoch = self._began.get(attempt_index + 1)
        if attempt_index not in self._replayed or by_epoch is None:
            return None
        kept = tuple(name for name, lease_epoch in self._leases.items() if 0 < lease_epoch < by_epoch)
        return Superseded(attempt_index, by_epoch - 1, "start", "end", by_epoch, kept, replayed=True)

    def lease_ended(self, attempt_index: int, lease: Lease, last: Entry) -> Superseded:
        """Return what the lease after one has superseded."""
        kept = tuple(name for name, epoch in self._leases.items() if lease.above < epoch <= lease.epoch)
        first = entry_id(*lease.first)
        return Superseded(attempt_index, lease.epoch, first, entry_id(*last), lease.epoch + 1, kept)


class Lease(Struct, frozen=True):
    """A lease under which frames were appended to a stream; old ones may be several that were merged."""

    epoch: int
    first: Entry
    """Its first frame."""
    above: int
    """The lease before it in the stream; 0: none."""


def lease_of(leases: tuple[LeaseStart, ...], entry: Entry) -> Lease | None:
    """Find the lease under which a frame was appended."""
    for place in range(len(leases) - 1, -1, -1):
        epoch, *first = leases[place]
        if tuple(first) <= entry:
            return Lease(epoch, (first[0], first[1]), leases[place - 1][0] if place else 0)
    return None


class Told(IntEnum):
    """What a reader knows of the frames up to its position."""

    NOTHING = 0
    BY_LEASE = 1
    """A newer lease has superseded those of the last lease."""
    BY_REPLAY = 2
    """A replay has superseded all of them."""


def mark_told(entry: Entry, found: Superseded) -> Entry:
    """Note in a reader's position what it knows of the frames up to there."""
    (ms, seq), _ = unmark_told(entry)
    return ms, seq + _MARK * (Told.BY_REPLAY if found.replayed else Told.BY_LEASE)


def unmark_told(entry: Entry) -> tuple[Entry, Told]:
    """Split a reader's position into the last frame that it got, and what it knows of the frames up to there."""
    ms, seq = entry
    told = min(seq // _MARK, Told.BY_REPLAY)
    return (ms, seq - told * _MARK), Told(told)
