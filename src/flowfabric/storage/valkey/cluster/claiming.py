"""Claiming on a cluster, where the work of a lane lies in many slots.

One task is claimed where the hints say that the best lies, in one round trip. When that brings nothing, and for more
than one task, every server is asked what its best is, and each task is then claimed by its place: two round trips, and
"none" is true when no server has any.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from msgspec.structs import astuple, replace

from flowfabric.model.command import Command
from flowfabric.model.ids import NEXT, mint
from flowfabric.model.operations.claim import Claim, Claimed, Task
from flowfabric.model.operations.lease import Release
from flowfabric.storage.valkey.cluster.cluster import Cluster, raised
from flowfabric.storage.valkey.cluster.hints import Head, Hints, Note
from flowfabric.storage.valkey.keys import Layout
from flowfabric.storage.valkey.operations import pack_fields
from flowfabric.storage.valkey.sight import Sight

ROUNDS: Final = 50
"""How often a claim looks again when others were faster everywhere."""
MAX_LOOK: Final = 256
REMEMBERED: Final = 10_000
"""How many claims of its own a process remembers."""


class ClaimPart(NamedTuple):
    """What of a claim is done in one home."""

    home: str
    command: Claim
    sight: Sight


class Look(NamedTuple):
    """What a look at all servers found."""

    held: dict[str, int]
    """What the claim holds already, with the scores that put it in order."""
    best: list[tuple[Head, bool]]
    """In order; those that are worn out, and end instead of being taken, are marked."""
    heads: list[Note]


class Claimer:
    """Claims for one store."""

    def __init__(
        self,
        cluster: Cluster,
        layout: Layout,
        hints: Hints,
        *,
        claim_in: Callable[[Sequence[ClaimPart]], Awaitable[list[Any]]],
        apply: Callable[[Command[Any]], Awaitable[Any]],
        time: Callable[[], str],
        number: Callable[[], int],
    ) -> None:
        self._cluster = cluster
        self._layout = layout
        self._hints = hints
        self._claim_in = claim_in
        self._apply = apply
        self._time = time
        self._number = number
        self._sent: dict[tuple[str, str], None] = {}

    async def claim(self, command: Claim) -> Claimed:
        """Select and lease the best work of some lanes."""
        known = self._sent_before(command)
        if command.max_tasks == 1 and not known and self._hints.know(command.lanes):
            found = await self._by_hint(command)
            if found is not None:
                return found
        taken: list[Task] = []
        asked = 0  # ids of leases are never used twice
        for turn in range(ROUNDS):
            wanted = command.max_tasks - len(taken)
            # Where others were faster, the next look reaches further, and each claimer chooses for itself.
            look = await self._look(command, min(wanted << 2 * turn, MAX_LOOK), repeat=not turn)
            if look.held and (repeated := await self._again(command, look.held)):
                return repeated
            if not look.best:
                break
            best = look.best
            if turn and len(best) > wanted:
                best = sorted(random.sample(best, wanted))
            taken += await self._take(command, best, asked)
            asked += len(best)
            if len(taken) >= command.max_tasks:
                break
        return Claimed(tuple(taken))

    def _sent_before(self, command: Claim) -> bool:
        """Whether this process has sent the claim before: then what it holds is asked for before anything is taken."""
        if not command.claim_id:
            return False
        name = (command.worker_instance_id, command.claim_id)
        if name in self._sent:
            return True
        self._sent[name] = None
        if len(self._sent) > REMEMBERED:
            del self._sent[next(iter(self._sent))]
        return False

    async def _by_hint(self, command: Claim) -> Claimed | None:
        best = self._hints.best(command)
        if best is None:
            return None
        sight = Sight() if best.elsewhere is None else _before(best.elsewhere)
        part = ClaimPart(best.home, command, sight)
        if not command.claim_id:
            (answer,) = raised(await self._claim_in([part]))
            return answer if answer.tasks else None
        # Whether it repeats one of another process is asked at the same time: that costs nothing when it does not, as
        # nearly always. If it does, what was taken is given back.
        held, answers = await asyncio.gather(self._held(command), self._claim_in([part]))
        (answer,) = raised(answers)
        taken = {task.execution_id for task in answer.tasks}
        before = {execution_id: score for execution_id, score in held.items() if execution_id not in taken}
        if not before:
            return answer if answer.tasks else None
        for task in answer.tasks:
            await self._apply(
                Release(execution_id=task.execution_id, fence=task.fence, reason="the claim was a repeat")
            )
        return await self._again(command, before)

    async def _held(self, command: Claim) -> dict[str, int]:
        packed, now = _packed(command), self._time()
        answers = raised(
            await self._cluster.per_server(
                self._layout.homes, lambda homes: ("FCALL_RO", "ff_held", 1, homes[0], now, packed, *homes)
            )
        )
        return {execution_id: score for answer in answers for execution_id, score in _scored(answer)}

    async def _look(self, command: Claim, count: int, *, repeat: bool) -> Look:
        """Ask every server for its best; and on the first time, what the claim holds already."""
        command = replace(command, max_tasks=count, claim_id=command.claim_id if repeat else "")
        number = self._number()  # what is written from now on has a greater one, and outweighs this look
        packed, now = _packed(command), self._time()
        answers = raised(
            await self._cluster.per_server(
                self._layout.homes, lambda homes: ("FCALL_RO", "ff_look", 1, homes[0], now, packed, *homes)
            )
        )
        look = Look({}, [], [])
        for held, best, heads in answers:
            look.held.update(_scored(held))
            look.best.extend(
                ((int(best[at]), best[at + 1].decode()), bool(best[at + 2])) for at in range(0, len(best), 3)
            )
            for at in range(0, len(heads), 5):
                home, lane, route, score, execution_id = (part.decode() for part in heads[at : at + 5])
                look.heads.append(Note(home, number, lane, route, (int(score), execution_id)))
        look.best.sort()
        del look.best[_enough(look.best, command.max_tasks) :]
        self._hints.looked_at(command.lanes, number, look.heads)
        return look

    async def _take(self, command: Claim, best: list[tuple[Head, bool]], asked: int) -> list[Task]:
        """Claim each by its place: the best of its partition, and nothing behind it.

        Those that are worn out need no ids, so theirs come last.
        """
        parts = []
        base = command.mint
        for _ in range(asked):
            base = mint(base, NEXT)
        for head, _ in sorted(best, key=itemgetter(1)):
            one = replace(command, max_tasks=1, mint=base)
            base = mint(base, NEXT)
            parts.append(ClaimPart(self._layout.home_of(head[1]), one, _before(head, repeats=False)))
        answers = await self._claim_in(parts)
        taken = [task for answer in answers if isinstance(answer, Claimed) for task in answer.tasks]
        if not taken:
            raised(answers)
        return taken

    async def _again(self, command: Claim, held: dict[str, int]) -> Claimed | None:
        """Return the tasks that a claim holds already; nothing when their leases have ended meanwhile."""
        homes = dict.fromkeys(self._layout.home_of(execution_id) for execution_id in held)
        answers = raised(
            await self._claim_in([ClaimPart(home, command, Sight(takes=False)) for home in homes])
        )
        tasks = [task for answer in answers for task in answer.tasks]
        if not tasks:
            return None
        return Claimed(
            tuple(sorted(tasks, key=lambda task: (held.get(task.execution_id, 0), task.execution_id)))
        )


def _scored(flat: list[bytes]) -> list[tuple[str, int]]:
    """Read ids, each of which is followed by its score."""
    return [(flat[at].decode(), int(flat[at + 1])) for at in range(0, len(flat), 2)]


def _enough(best: list[tuple[Head, bool]], wanted: int) -> int:
    """How many of the best are needed for so many tasks."""
    for place, (_, worn) in enumerate(best):
        wanted -= not worn
        if not wanted:
            return place + 1
    return len(best)


def _packed(command: Claim) -> bytes:
    return pack_fields(astuple(command))


def _before(head: Head, *, repeats: bool = True) -> Sight:
    """Let a claim see nothing that lies behind some work."""
    return Sight(repeats=repeats, bound_score=head[0], bound_id=head[1])
