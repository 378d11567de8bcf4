"""What a run is asked to do, and what it found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    """`single`: every slot claims for itself. `shared`: one worker claims for all its slots while it completes what
    is finished, so up to twice as many leases are held. The ceiling does the same: the ratio compares like with like.
    """
    face: str = ""
    """`app`: tasks of an app stand beside the boundary of the store, which then has no ceiling beside it."""
    seconds: float = 10.0
    """How long something lasts that has no end of its own."""
    limit: float = 120.0
    """Seconds that a peer may take to submit, and to drain."""
    prefetch: int = 0
    """Above 0: tasks that one process holds, claimed many at a time; the slots work on them."""

    def body(self) -> bytes:
        """A JSON text of the asked size."""
        return msgspec.json.encode({"text": "x" * max(0, self.payload - 11)})


Report = dict[str, Any]


class Scenario(NamedTuple):
    """Something to measure."""

    run: Callable[[Settings], Report]
    stores: Mapping[str, Mapping[str, Any]]
    """Where it runs, and what is otherwise there than in other scenarios; the first when none is asked for."""
