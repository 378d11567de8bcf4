"""What all makers of commands share: the register, and the parts that many commands are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from flowfabric.model.command import NO_FENCE, Command, Fence
from support.simulation.draw import Draw
from support.simulation.world import WORKERS, Known, Profile, World

C = TypeVar("C", bound=Command[Any])
Maker = Callable[["Hand"], Command[Any]]

MAKERS: Final[dict[type[Command[Any]], Maker]] = {}
"""For every kind of command, a function that makes one."""

UNKNOWN: Final = "{fp:7}:00000000-0000-4000-8000-000000000000"
WRONG_IDS: Final = ("{fp:900}:00000000-0000-4000-8000-000000000000", "nonsense", "{fp:1}:X", "")
ACTORS: Final = ("", "", "", "ops")


class Hand:
    """The world, the chances, and perhaps one execution that the command shall be about."""

    def __init__(self, world: World, draw: Draw, about: Known | None = None) -> None:
        self.world = world
        self.draw = draw
        self._about = about

    def run(self) -> Known:
        """The execution to act on: the one in hand, any known one, rarely one that does not exist."""
        if self._about is not None:
            return self._about
        if not self.world.runs or self.draw.chance(0.02):
            return Known(UNKNOWN if self.draw.chance(0.8) else self.draw.pick(WRONG_IDS))
        return self.draw.pick(list(self.world.runs.values()))

    def on(self, known: Known) -> dict[str, Any]:
        """The fields of every command about an execution."""
        return {"execution_id": known.execution_id, "actor": self.draw.pick(ACTORS)}

    def held(self, known: Known) -> dict[str, Any]:
        """The fields of every command of a holder, with a fence that is mostly right."""
        fields = self.on(known) | {"fence": self.fence(known)}
        if self.draw.chance(0.05):
            fields["source"] = self.draw.pick(("operator_override", "lease_holder", "operator", ""))
        return fields

    def fence(self, known: Known) -> Fence:
        good = known.fence
        spoil = self.draw.weighted(
            (
                (84, "good"),
                (5, "stale"),
                (3, "partial"),
                (3, "foreign"),
                (2, "none"),
                (2, "epoch"),
                (1, "bad"),
            )
        )
        if spoil == "stale" and known.stale:
            return self.draw.pick(known.stale)
        if spoil == "partial" and good.given:
            return self.draw.pick(
                (
                    replace(good, lease_id=""),
                    replace(good, attempt_id=""),
                    replace(good, lease_epoch=-1),
                )
            )
        if spoil == "foreign" and self.world.runs:
            return self.draw.pick(list(self.world.runs.values())).fence
        if spoil == "none":
            return NO_FENCE
        if spoil == "epoch" and good.given:
            return replace(good, lease_epoch=max(good.lease_epoch + self.draw.pick((-1, 1)), 0))
        if spoil == "bad":
            return Fence(self.draw.pick(("not-a-uuid", self.draw.uuid())), good.lease_epoch, good.attempt_id)
        return good

    def worker(self, known: Known | None = None) -> Profile:
        """A worker that may serve an execution, mostly."""
        if known is not None and self.draw.chance(0.85):
            serving = [each for each in WORKERS if known.lane_id in each.lanes]
            if serving:
                return self.draw.pick(serving)
        return self.draw.pick(WORKERS)

    def soon(self) -> int:
        """A time near now, on either side of it."""
        return max(self.world.now + self.draw.pick((-1000, 0, 1, 500, 5_000, 60_000)), 0)

    def ttl(self) -> int:
        """How long a lease shall hold; sometimes not allowed."""
        return self.draw.weighted(
            ((10, 30_000), (6, 1_000), (4, 5_000), (2, 3_600_000), (1, 0), (1, 3_600_001))
        )


def maker(kind: type[C]) -> Callable[[Callable[[Hand], C]], Callable[[Hand], C]]:
    """Register how a kind of command is made."""

    def register(function: Callable[[Hand], C]) -> Callable[[Hand], C]:
        MAKERS[kind] = function
        return function

    return register
