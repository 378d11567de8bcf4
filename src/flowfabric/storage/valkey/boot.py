"""What happens when a store is opened: the server must be one that we can use, and what lies in it ours."""

from __future__ import annotations

import logging
from typing import Any, Final

from libvalkey import ReplyError

from flowfabric.model.errors import PartitionMismatch, SchemaTooNew, StoreUnusable
from flowfabric.model.ids import Partitions
from flowfabric.storage.valkey import keys, library
from flowfabric.storage.valkey.client import Client, refuse_library
from flowfabric.storage.valkey.faults import NO_FUNCTION, of_reply

OLDEST: Final = (7, 2)
MARKER: Final = "flowfabric-python"
FORMAT: Final = 1
MARK: Final = keys.SINGLE + keys.STORE
REFERENCE: Final = "ff:config:partitions"
"""A key of the reference's own; beside it, our marker is missing."""

log = logging.getLogger("flowfabric.valkey")


async def prepare(client: Client, partitions: Partitions) -> None:
    """Check the server and what it holds, and load the library."""
    _check_server(_read_info(await client.call("INFO")))
    await _check_marker(client, partitions)
    await _check_library(client)


def _read_info(text: bytes) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines())
    return {name: value for name, colon, value in pairs if colon}


def _check_server(info: dict[str, str]) -> None:
    is_valkey = info.get("server_name") == "valkey" or "valkey_version" in info
    text = info.get("valkey_version") or info.get("redis_version", "")
    digits = text.split(".")[:2]
    if len(digits) < 2 or not all(part.isdigit() for part in digits):
        raise StoreUnusable(f"the server does not say which version it is: '{text}'")
    if (int(digits[0]), int(digits[1])) < OLDEST:
        raise StoreUnusable(f"the server is version {text}; 7.2 or newer is needed")
    if not is_valkey:
        log.warning("the server is Redis %s; FlowFabric is tested with Valkey", text)
    limit, eviction = info.get("maxmemory", "0"), info.get("maxmemory_policy", "noeviction")
    if limit != "0" and eviction.startswith("allkeys"):
        raise StoreUnusable(
            f"maxmemory-policy is {eviction}: the server would throw work away; set it to noeviction"
        )


async def _check_marker(client: Client, partitions: Partitions) -> None:
    """Record format and counts at first boot; refuse others later, because ids carry their partition for ever."""
    wanted = {
        "marker": MARKER,
        "format": str(FORMAT),
        "num_flow_partitions": str(partitions.flow),
        "num_budget_partitions": str(partitions.budget),
        "num_quota_partitions": str(partitions.quota),
    }
    known, foreign = await client.several([("EXISTS", MARK), ("EXISTS", REFERENCE)])
    if foreign == 1 and known == 0:
        raise StoreUnusable("this server holds data of another FlowFabric; use another database")
    calls: list[tuple[Any, ...]] = [("HSETNX", MARK, field, value) for field, value in wanted.items()]
    replies = await client.several([*calls, ("HGETALL", MARK)])
    for reply in replies:
        if isinstance(reply, ReplyError):
            raise of_reply(reply, "boot")
    flat: list[bytes] = replies[-1]
    stored = {flat[at].decode(): flat[at + 1].decode() for at in range(0, len(flat), 2)}
    if stored["marker"] != MARKER:
        raise StoreUnusable(f"{MARK} is marked as '{stored['marker']}', not as ours")
    if int(stored["format"]) > FORMAT:
        raise SchemaTooNew(f"the data has format {stored['format']}; this FlowFabric knows {FORMAT}")
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
