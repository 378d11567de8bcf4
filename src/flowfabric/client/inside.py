"""What the engine of a store needs and no client has: each is refused, with what to do instead."""

from __future__ import annotations

from flowfabric.model.errors import NotOffered
from flowfabric.storage.base import Dump, RepairReport


def _refusal(what: str) -> NotOffered:
    return NotOffered(
        f"{what} is not offered over HTTP: the server runs the engine; start none beside a client"
    )


class Inside:
    """The part of the boundary that stays inside the server."""

    def now(self) -> int:
        """Refuse: the store's clock is the server's."""
        raise _refusal("now")

    def expect_due(self, due_at: int) -> None:  # noqa: ARG002 - as the boundary has it
        """Refuse: timers run in the server."""
        raise _refusal("expect_due")

    def next_due(self) -> int:
        """Refuse: timers run in the server."""
        raise _refusal("next_due")

    async def acquire_leader_lease(self, name: str, holder: str, ttl_ms: int) -> bool:  # noqa: ARG002
        """Refuse: servers share the work of the engine among themselves."""
        raise _refusal("acquire_leader_lease")

    async def release_leader_lease(self, name: str, holder: str) -> None:  # noqa: ARG002
        """Refuse: servers share the work of the engine among themselves."""
        raise _refusal("release_leader_lease")

    async def collect(self, limit: int = 1000) -> int:  # noqa: ARG002
        """Refuse: the server cleans up."""
        raise _refusal("collect")

    async def repair(self, *, fix: bool = True) -> RepairReport:  # noqa: ARG002
        """Refuse: the server repairs."""
        raise _refusal("repair")

    async def dump(self) -> Dump:
        """Refuse: open the store itself to see all of it."""
        raise _refusal("dump")
