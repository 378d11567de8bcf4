"""The unit of work of the general path: a group of commands, loaded, decided in memory, saved by one `ff_commit`.

Nothing is locked in between. The commit repeats the reads; if one of them has another reply now, nothing is written and
the group is decided again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from flowfabric.model.command import Command
from flowfabric.model.errors import FlowFabricError, StoreBusy
from flowfabric.model.machine.group import run_group
from flowfabric.model.machine.workspace import LoadRequest, Workspace
from flowfabric.model.operations.timer import Purge
from flowfabric.storage.base import Clock
from flowfabric.storage.valkey.keys import Layout
from flowfabric.storage.valkey.load import Loader
from flowfabric.storage.valkey.lua.library import VERSION
from flowfabric.storage.valkey.requests import EACH, PAUSE, Gathered, Plan, Request
from flowfabric.storage.valkey.save import Reads, Saver
from flowfabric.storage.valkey.sight import EVERYTHING, Sight

TRIES: Final = 24
EAGER_TRIES: Final = 3
"""So many tries follow each other at once, with the replies that the conflict brought along."""
PAUSE_SECONDS: Final = 0.0002
LONGEST_PAUSE: Final = 8
"""Pauses are doubled so often at most."""
TIME: Final[Request] = ("TIME",)
DONE: Final = 1


class Unit:
    """Plans groups of commands in one home."""

    def __init__(
        self, layout: Layout, home: str, clock: Clock, moment: Callable[[int], str], *, own: bool
    ) -> None:
        self._layout = layout.within(home)
        self._home = home
        self._clock = clock
        self._own = own
        """Whether the clock is the caller's own, and not the server's."""
        self._moment = moment
        """Writes a time as functions take it."""

    def write(
        self, commands: Sequence[Command[Any]], chances: Sequence[float], sight: Sight = EVERYTHING
    ) -> Plan[list[Any]]:
        """Decide commands and save what they changed."""
        known: dict[Request, Any] = {}
        for turn in range(TRIES):
            if turn > EAGER_TRIES:
                known = {}
                longest = PAUSE_SECONDS * 2 ** min(turn, LONGEST_PAUSE)
                yield [(PAUSE, random.uniform(0, longest))]  # noqa: S311 - so that callers do not meet again
            decision = Decision(self._layout, Workspace(self._clock()), sight, known, own_clock=self._own)
            try:
                answers = yield from decision.run(commands, chances)
            except FlowFabricError as error:  # a record that cannot be read refuses its own command only
                if len(commands) == 1:
                    return [error]
                return (yield from self._one_by_one(commands, chances))
            function = "ff_commit_full" if isinstance(commands[0], Purge) else "ff_commit"
            arguments = (self._moment(decision.space.now), VERSION, *decision.arguments())
            ((status, *rest),) = yield [("FCALL", function, 1, self._home, *arguments)]
            if status == DONE:
                return answers
            known = {**decision.reads.with_replies(rest[1]), TIME: int(rest[0])}
        return [StoreBusy("others change the same records all the time; try again")] * len(commands)

    def _one_by_one(self, commands: Sequence[Command[Any]], chances: Sequence[float]) -> Plan[list[Any]]:
        answers = []
        for command, chance in zip(commands, chances, strict=True):
            answers += yield from self.write((command,), (chance,))
        return answers


class Decision:
    """One try: what was read, by which time, and what follows from it."""

    def __init__(
        self, layout: Layout, space: Workspace, sight: Sight, known: dict[Request, Any], *, own_clock: bool
    ) -> None:
        self.space = space
        self.reads = Reads()
        self._layout = layout
        self._own_clock = own_clock
        self._known = known
        self._since = 0
        self._loader = Loader(space, layout, sight)

    def run(self, commands: Sequence[Command[Any]], chances: Sequence[float]) -> Plan[list[Any]]:
        """Load what the commands ask for, and decide them."""
        return _decide(self.space, commands, chances, lambda request: self._load(self._loader.load(request)))

    def arguments(self) -> list[str | bytes]:
        """Return what a commit compares and writes."""
        since = "" if self._own_clock else str(self._since or self.space.now)
        return [since, *self.reads.arguments(), *Saver(self.space, self._layout).writes()]

    def _load(self, plan: Plan[None]) -> Plan[None]:
        """Carry a plan out in the one home, note what it reads, and look at the server's clock behind it."""
        try:
            requests = next(plan)
            while True:
                replies = yield from self._replies([self._plain(request) for request in requests])
                requests = plan.send(
                    [
                        Gathered([reply]) if request[0] == EACH else reply
                        for reply, request in zip(replies, requests, strict=True)
                    ]
                )
        except StopIteration:
            return

    def _plain(self, request: Request) -> Request:
        """Write a request as the commit repeats it: about keys of the one home, and as text."""
        if request[0] == EACH:
            _, verb, name, *rest = request
            request = (verb, self._layout.common + name, *rest)
        return tuple(part.decode() if isinstance(part, bytes) else str(part) for part in request)

    def _replies(self, requests: list[Request]) -> Plan[list[Any]]:
        if self._known and all(request in self._known for request in requests):
            replies = [self._known[request] for request in requests]
            now = self._known[TIME]
        elif self._own_clock:
            replies, now = (yield requests), 0
        else:
            *replies, (seconds, micros) = yield [*requests, TIME]
            now = int(seconds) * 1_000 + int(micros) // 1_000
        if not self._own_clock:
            self.space.now = now
            self._since = self._since or now
        for request, reply in zip(requests, replies, strict=True):
            self.reads.note(request, reply)
        return replies


def read(layout: Layout, space: Workspace, question: Command[Any]) -> Plan[Any]:
    """Answer a question about all homes; nothing is saved."""
    (answer,) = yield from _decide(space, (question,), (0.0,), Loader(space, layout).load)
    return answer


def _decide(
    space: Workspace,
    commands: Sequence[Command[Any]],
    chances: Sequence[float],
    load: Callable[[LoadRequest], Plan[None]],
) -> Plan[list[Any]]:
    rounds = run_group(space, commands, chances)
    try:
        request = next(rounds)
        while True:
            yield from load(request)
            request = next(rounds)
    except StopIteration as done:
        replies: list[Any] = done.value
        return replies
