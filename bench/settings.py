"""What a run is asked to do, and what it found."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from flowfabric.storage.sqlite.connection import Synchronous


class Settings(msgspec.Struct, frozen=True):
    """One run of a scenario."""

    store: str = "sqlite"
    tasks: int = 10_000
    payload: int = 4_096
    slots: int = 16
    processes: int = 1
    runs: int = 3
    synchronous: Synchronous = "NORMAL"
    claims: str = "single"
    """`single`: every slot claims for itself, as the ceiling does, so that the ratio compares like with like.

    `shared`: one worker claims for all its slots while it completes what is finished. Up to twice as many leases are
    held then, and the ceiling does not batch: its ratio says what a worker gains by batching, not what deciding costs.
    """

    def body(self) -> bytes:
        """A JSON text of the asked size."""
        return msgspec.json.encode({"text": "x" * max(0, self.payload - 11)})


class Rates(NamedTuple):
    """Tasks per second."""

    submit: float
    drain: float
    end_to_end: float


def median(values: list[float]) -> float:
    """The middle value; half a run's noise is in its extremes."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


Report = dict[str, Any]
