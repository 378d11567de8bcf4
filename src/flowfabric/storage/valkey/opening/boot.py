"""What happens when a store is opened: the server must be one that we can use, and what lies in it ours.

In this order: the server is looked at before anything is written, counts are compared before anything is stored by
them, and the library is loaded last.
"""

from __future__ import annotations

from typing import Any, Final

from libvalkey import ReplyError

from flowfabric.model.errors import (
    FlowFabricError,
    PartitionMismatch,
    SchemaTooNew,
    StoreUnusable,
    Unreachable,
)
from flowfabric.model.ids import Partitions
from flowfabric.storage.valkey import keys
from flowfabric.storage.valkey.cluster.cluster import Cluster
from flowfabric.storage.valkey.connection.client import Client, refuse_library
from flowfabric.storage.valkey.connection.faults import NO_FUNCTION, of_reply
from flowfabric.storage.valkey.lua import library
from flowfabric.storage.valkey.opening.patience import Patience
from flowfabric.storage.valkey.opening.servers import check_server

MARKER: Final = "flowfabric-python"
FORMAT: Final = 6
MARK: Final = keys.SINGLE + keys.STORE
CLUSTER_MARK: Final = keys.COMMON + keys.STORE
REFERENCE: Final = "ff:config:partitions"
"""A key of the reference's own; beside it, our marker is missing."""
COMMANDS: Final = (
    "DEL",
    "EXISTS",
    "GET",
    "HDEL",
    "HEXISTS",
    "HGET",
    "HGETALL",
    "HINCRBY",
    "HKEYS",
    "HLEN",
    "HMGET",
    "HSCAN",
    "HSET",
    "HSETNX",
    "INCR",
    "LINDEX",
    "LRANGE",
    "MGET",
    "MSET",
    "PUBLISH",
    "PUBSUB",
    "RPUSH",
    "SADD",
    "SCAN",
    "SET",
    "SISMEMBER",
    "SMEMBERS",
    "SREM",
    "SUBSCRIBE",
    "TIME",
    "TYPE",
    "UNLINK",
    "UNSUBSCRIBE",
    "XADD",
    "XDEL",
    "XLEN",
    "XRANGE",
    "XREVRANGE",
    "XTRIM",
    "ZADD",
    "ZCOUNT",
    "ZRANGE",
    "ZREM",
    "ZSCAN",
    "ZSCORE",
)
"""Everything that is sent, by callers and by functions, on a server that works."""
RIGHTS: Final = "~ff:* &ff:wake:* +@all -@admin -@dangerous +info"
"""As `ACL SETUSER` takes them; narrower ones will do, as long as all of the above are among them."""


async def prepare(client: Client, partitions: Partitions, patience: Patience) -> None:
    """Check the server and what it holds, and load the library."""
    await patience.keep(lambda: check_server(client, clustered=False))
    await _check_marker(client, partitions, MARK)
    await _check_library(client)
    await _check_rights(client)


async def prepare_cluster(cluster: Cluster, partitions: Partitions, patience: Patience) -> None:
    """Check every server of a cluster and what it holds, and load the library on each."""
    await patience.keep(lambda: _check_cluster(cluster))
    await _check_marker(cluster, partitions, CLUSTER_MARK)
    for node in await cluster.nodes():
        await _check_library(node)
        await _check_rights(node)


async def _check_cluster(cluster: Cluster) -> None:
    slots = await cluster.slots(anew=True)
    for node in await cluster.nodes():
        await check_server(node, clustered=True)
    if not slots.complete:
        raise Unreachable(f"{cluster.where}: no server holds some of the slots; CLUSTER SLOTS shows which")


async def _check_origin(client: Client | Cluster, mark: str) -> None:
    """Refuse data that are not ours, or lie under the names of the other kind of store."""
    other = CLUSTER_MARK if mark == MARK else MARK
    known, foreign, otherwise = await client.several([("EXISTS", each) for each in (mark, REFERENCE, other)])
    if foreign == 1 and known == 0:
        raise StoreUnusable("this server holds data of another FlowFabric; use another database")
    if otherwise == 1:
        here, there = ("single server", "cluster")[:: 1 if mark == MARK else -1]
        raise StoreUnusable(
            f"these data were written by a store on a {there}, whose keys have other names than those on a {here}; "
            "load them into what they were written by, or begin with an empty one"
        )


async def _check_marker(client: Client | Cluster, partitions: Partitions, mark: str) -> None:
    """Record format and counts at first boot; refuse others later, because ids carry their partition for ever."""
    wanted = {
        "marker": MARKER,
        "format": str(FORMAT),
        "num_flow_partitions": str(partitions.flow),
        "num_budget_partitions": str(partitions.budget),
        "num_quota_partitions": str(partitions.quota),
    }
    await _check_origin(client, mark)
    calls: list[tuple[Any, ...]] = [("HSETNX", mark, field, value) for field, value in wanted.items()]
    replies = await client.several([*calls, ("HGETALL", mark)])
    for reply in replies:
        if isinstance(reply, ReplyError):
            raise of_reply(reply, "boot")
        if isinstance(reply, FlowFabricError):
            raise reply
    flat: list[bytes] = replies[-1]
    stored = {flat[at].decode(): flat[at + 1].decode() for at in range(0, len(flat), 2)}
    if stored["marker"] != MARKER:
        raise StoreUnusable(f"{mark} is marked as '{stored['marker']}', not as ours")
    if int(stored["format"]) > FORMAT:
        raise SchemaTooNew(f"the data has format {stored['format']}; this FlowFabric knows {FORMAT}")
    if int(stored["format"]) < FORMAT:
        raise StoreUnusable(
            f"the data has format {stored['format']}, which was never released; use an empty database"
        )
    for field, value in wanted.items():
        if field.startswith("num_") and stored[field] != value:
            raise PartitionMismatch(
                f"{field} is {stored[field]} on this server and {value} in the settings; partition counts are fixed",
                field=field,
                details=(stored[field], value),
            )


async def _check_library(client: Client) -> None:
    (reply,) = await client.several([("FCALL_RO", "ff_version", 0)])
    if isinstance(reply, ReplyError):
        if not str(reply).startswith(NO_FUNCTION):
            raise of_reply(reply, "ff_version")
        await client.load()
        return
    refuse_library(reply)
    if reply[1].decode() != library.library().digest:
        await client.load()


async def _check_rights(client: Client) -> None:
    missing: list[bytes] = await client.call("FCALL_RO", "ff_rights", 0, *COMMANDS)
    if missing:
        raise StoreUnusable(
            f"the user may not send {', '.join(verb.decode() for verb in missing)} about keys ff:* and channels "
            f"ff:wake:*; ask for these rights: {RIGHTS}"
        )
