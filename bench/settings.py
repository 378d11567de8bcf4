"""Settings and reports of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from flowfabric.storage.sqlite.connection import Synchronous


class Settings(msgspec.Struct, frozen=True):
    """The settings of one run of a scenario."""

    store: str = "sqlite"
    tasks: int = 10_000
    payload: int = 4_096
    slots: int = 16
    processes: int = 1
    runs: int = 3
    synchronous: Synchronous = "NORMAL"
    aof: str = "no"
    """`no`: Valkey without persistence; otherwise its `appendfsync`."""
    claims: str = "single"
    """`single`: every slot claims for itself. `shared`: one worker claims for all its slots while it completes what
    is finished, so up to twice as many leases are held. The ceiling does the same: the ratio compares like with like.
    """
    face: str = ""
    """`app`: compare tasks of an app with the bare store, instead of the engine with a ceiling."""
    seconds: float = 10.0
    """Duration of scenarios that have no end of their own."""
    limit: float = 120.0
    """Seconds that a peer may take to submit, and again to drain."""
    prefetch: int = 0
    """Tasks that one process holds in advance, claimed many at a time; 0: none."""

    def body(self) -> bytes:
        """Return a JSON text of the given size."""
        return msgspec.json.encode({"text": "x" * max(0, self.payload - 11)})


Report = dict[str, Any]


class Scenario(NamedTuple):
    """A scenario: what runs, and on which stores."""

    run: Callable[[Settings], Report]
    stores: Mapping[str, Mapping[str, Any]]
    """Default settings by store; the first store is the default."""
