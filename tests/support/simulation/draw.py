"""Chances: everything random in a simulation comes from one seeded source."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from typing import TypeVar

from flowfabric.model import ids
from flowfabric.model.ids import Partitions

T = TypeVar("T")
PARTITIONS = Partitions()


class Draw:
    """Short names for random choices."""

    def __init__(self, source: random.Random) -> None:
        self.source = source

    def chance(self, probability: float) -> bool:
        return self.source.random() < probability

    def pick(self, options: Sequence[T]) -> T:
        return options[self.source.randrange(len(options))]

    def weighted(self, options: Sequence[tuple[int, T]]) -> T:
        """Pick one of some (weight, option) pairs."""
        place = self.source.randrange(sum(weight for weight, _ in options))
        for weight, option in options:
            place -= weight
            if place < 0:
                return option
        raise AssertionError

    def integer(self, low: int, high: int) -> int:
        return self.source.randint(low, high)

    def some(self, options: Sequence[T], most: int) -> tuple[T, ...]:
        """Pick up to `most` different options, at least one."""
        count = self.integer(1, min(most, len(options)))
        return tuple(self.source.sample(list(options), count))

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.source.getrandbits(128), version=4))

    def execution_id(self) -> str:
        return ids.spread(self.uuid(), PARTITIONS)

    def data(self) -> bytes:
        """Bytes of any kind, mostly few."""
        kinds = ((4, b""), (6, b'{"a":1}'), (3, b"\xff\x00\xfe"), (1, b"x" * 5000))
        return self.weighted(kinds)
