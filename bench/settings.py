"""What a run is asked to do, and what it found."""

from __future__ import annotations

from collections.abc import Callable
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
    aof: str = "no"
    """`no`: a Valkey server keeps nothing on disk; else its `appendfsync`."""
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


Report = dict[str, Any]


class Scenario(NamedTuple):
    """Something to measure, and where."""

    run: Callable[[Settings], Report]
    stores: tuple[str, ...]
    """The first is taken when none is asked for."""
    tasks: int = 10_000
