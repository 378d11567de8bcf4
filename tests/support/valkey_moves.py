"""Moving slots of a cluster from server to server, in both ways that there are."""

from __future__ import annotations

import asyncio
from typing import Any

from valkey.crc import key_slot

from support.valkey import ValkeyServer
from support.valkey_cluster import ValkeyCluster, ask, await_true, name_of

BATCH = 10


def slot_of(partition: int) -> int:
    """Return the slot of a partition."""
    return int(key_slot(f"ff:{{fp:{partition}}}:".encode()))


async def move_at_once(
    cluster: ValkeyCluster, source: ValkeyServer, target: ValkeyServer, slots: range
) -> None:
    """Let the server itself move slots, each of them whole (`CLUSTER MIGRATESLOTS`, since Valkey 9)."""
    ask(source, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slots[0], slots[-1], "NODE", name_of(target))

    def state() -> bytes:
        (newest, *_) = ask(source, "CLUSTER", "GETSLOTMIGRATIONS")
        about: dict[bytes, Any] = dict(zip(newest[::2], newest[1::2], strict=True))
        assert about[b"state"] != b"failed", about
        return about[b"state"]  # type: ignore[no-any-return]

    await asyncio.to_thread(await_true, lambda: state() == b"success")
    await asyncio.to_thread(await_true, lambda: cluster.holder(slots[0]) is target)


class KeyByKey:
    """A slot that is moved as before Valkey 9: key by key, while both servers are asked for it."""

    def __init__(self, cluster: ValkeyCluster, slot: int, target: ValkeyServer) -> None:
        self.cluster = cluster
        self.slot = slot
        self.source = cluster.holder(slot)
        self.target = target

    def begin(self) -> None:
        """From now on functions are turned away."""
        ask(self.target, "CLUSTER", "SETSLOT", self.slot, "IMPORTING", name_of(self.source))
        ask(self.source, "CLUSTER", "SETSLOT", self.slot, "MIGRATING", name_of(self.target))

    def move(self, count: int = 1 << 30) -> int:
        """Move some keys and return how many there were."""
        moved = 0
        while moved < count:
            keys = ask(self.source, "CLUSTER", "GETKEYSINSLOT", self.slot, min(BATCH, count - moved))
            if not keys:
                break
            ask(self.source, "MIGRATE", "127.0.0.1", self.target.port, "", 0, 5_000, "KEYS", *keys)
            moved += len(keys)
        return moved

    def end(self) -> None:
        """Say who holds the slot now."""
        for server in (self.target, self.source, *self.cluster.servers):
            ask(server, "CLUSTER", "SETSLOT", self.slot, "NODE", name_of(self.target))
