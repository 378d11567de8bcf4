"""What `ff doctor` looks at in Valkey: each server of a cluster, or the one there is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from flowfabric.cli.findings import Finding, Verdict, judged
from flowfabric.storage.base import Commands
from flowfabric.storage.valkey import ValkeyStore
from flowfabric.storage.valkey.connection.client import Client

SKEW_MS: Final = 1_000
BUSY_PER_SECOND: Final = 50_000
FULL: Final = 0.9
LOOK_SECONDS: Final = 1.0


async def examine(store: Commands) -> list[Finding]:
    """Look at every server."""
    assert isinstance(store, ValkeyStore)
    client = store.client
    nodes = [client] if isinstance(client, Client) else await client.nodes()
    looked = await asyncio.gather(*(_server(node) for node in nodes))
    if len(nodes) == 1:
        return looked[0]
    return [
        Finding(f"{node.host} {each.name}", each.value, each.verdict, each.remedy)
        for node, found in zip(nodes, looked, strict=True)
        for each in found
    ]


async def _server(node: Client) -> list[Finding]:
    before = await _info(node)
    skew = await _skew(node)
    await asyncio.sleep(LOOK_SECONDS)  # the load is what comes in meanwhile
    info = await _info(node)
    commands = int(info["total_commands_processed"]) - int(before["total_commands_processed"]) - 1
    rate = max(0.0, commands / LOOK_SECONDS)
    return [
        Finding("valkey", info.get("valkey_version") or f"redis {info.get('redis_version')}"),
        judged(
            "clock", f"{skew:+d} ms from this machine's", good=abs(skew) < SKEW_MS, verdict=Verdict.NOTE,
            remedy="let NTP set both clocks",
        ),
        judged(
            "load", f"{rate:.0f} commands a second", good=rate < BUSY_PER_SECOND, verdict=Verdict.NOTE,
            remedy="it is busy; a cluster shares the work",
        ),
        *persistence(info),
        *memory(info),
        judged(
            "replicas", info.get("connected_slaves", "0"), good=info.get("connected_slaves", "0") != "0",
            verdict=Verdict.NOTE, remedy="with one, and FF_VALKEY_WAIT=1, nothing is lost with this server",
        ),
    ]  # fmt: skip


async def _info(node: Client) -> dict[str, str]:
    text: bytes = await node.call("INFO")
    pairs = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines())
    return {name: value for name, colon, value in pairs if colon}


async def _skew(node: Client) -> int:
    """How far the server's clock is ahead, taking the middle of the call as its moment."""
    started = time.time()
    seconds, micros = await node.call("TIME")
    middle = (started + time.time()) / 2
    return round((int(seconds) + int(micros) / 1e6 - middle) * 1_000)


def persistence(info: Mapping[str, str]) -> list[Finding]:
    """Judge what survives a restart, by what INFO says."""
    appends = info.get("aof_enabled", "0") == "1"
    failing = [
        name
        for name in ("rdb_last_bgsave_status", "aof_last_write_status", "aof_last_bgrewrite_status")
        if info.get(name, "ok") != "ok"
    ]
    return [
        judged(
            "appendonly", "yes" if appends else "no", good=appends,
            remedy="a restart loses everything since the last snapshot: set appendonly yes",
        ),
        judged(
            "last write of its files", ", ".join(failing) or "ok", good=not failing,
            remedy="it cannot write: look at its log and its disk",
        ),
    ]  # fmt: skip


def memory(info: Mapping[str, str]) -> list[Finding]:
    """Judge whether it may run out of memory, or throw work away."""
    policy, limit = info.get("maxmemory_policy", "noeviction"), int(info.get("maxmemory", "0"))
    used = int(info.get("used_memory", "0"))
    told = f"{used // 2**20} MiB of {limit // 2**20} MiB" if limit else f"{used // 2**20} MiB, no limit"
    return [
        judged(
            "maxmemory-policy", policy, good=not policy.startswith("allkeys"),
            remedy="it would throw work away: set noeviction",
        ),
        judged(
            "memory", told, good=not limit or used < limit * FULL,
            remedy="it is nearly full: raise maxmemory, or keep results for a shorter time",
        ),
    ]  # fmt: skip
