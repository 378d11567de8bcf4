"""Check Valkey: the server, or each server of a cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from flowfabric.cli.doctor.finding import MAX_SKEW_MS, Finding, Verdict, check
from flowfabric.storage.base import Commands
from flowfabric.storage.valkey import ValkeyStore
from flowfabric.storage.valkey.connection.client import Client

MAX_COMMANDS_PER_SECOND: Final = 50_000
MAX_MEMORY_SHARE: Final = 0.9
SAMPLE_SECONDS: Final = 1.0


async def check_valkey(store: Commands) -> list[Finding]:
    """Check every server of a store."""
    assert isinstance(store, ValkeyStore)
    client = store.client
    nodes = [client] if isinstance(client, Client) else await client.nodes()
    findings = await asyncio.gather(*(_check_node(node) for node in nodes))
    if len(nodes) == 1:
        return findings[0]
    return [
        Finding(f"{node.host} {each.name}", each.value, each.verdict, each.remedy)
        for node, found in zip(nodes, findings, strict=True)
        for each in found
    ]


async def _check_node(node: Client) -> list[Finding]:
    before = await _info(node)
    skew = await _measure_skew(node)
    await asyncio.sleep(SAMPLE_SECONDS)  # the load is measured meanwhile
    info = await _info(node)
    commands = int(info["total_commands_processed"]) - int(before["total_commands_processed"]) - 1
    rate = max(0.0, commands / SAMPLE_SECONDS)
    return [
        Finding("valkey", info.get("valkey_version") or f"redis {info.get('redis_version')}"),
        check(
            "clock",
            f"{skew:+d} ms from this machine's",
            ok=abs(skew) < MAX_SKEW_MS,
            verdict=Verdict.NOTE,
            remedy="let NTP set both clocks",
        ),
        check(
            "load",
            f"{rate:.0f} commands a second",
            ok=rate < MAX_COMMANDS_PER_SECOND,
            verdict=Verdict.NOTE,
            remedy="it is busy; a cluster shares the work",
        ),
        *check_persistence(info),
        *check_memory(info),
        check(
            "replicas",
            info.get("connected_slaves", "0"),
            ok=info.get("connected_slaves", "0") != "0",
            verdict=Verdict.NOTE,
            remedy="with one, and FF_VALKEY_WAIT=1, nothing is lost with this server",
        ),
    ]


async def _info(node: Client) -> dict[str, str]:
    text: bytes = await node.call("INFO")
    pairs = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines())
    return {name: value for name, colon, value in pairs if colon}


async def _measure_skew(node: Client) -> int:
    """Return by how many ms the server's clock is ahead; it is read in the middle of the call."""
    started = time.time()
    seconds, micros = await node.call("TIME")
    middle = (started + time.time()) / 2
    return round((int(seconds) + int(micros) / 1e6 - middle) * 1_000)


def check_persistence(info: Mapping[str, str]) -> list[Finding]:
    """Check that data survive a restart."""
    appends = info.get("aof_enabled", "0") == "1"
    failing = [
        name
        for name in ("rdb_last_bgsave_status", "aof_last_write_status", "aof_last_bgrewrite_status")
        if info.get(name, "ok") != "ok"
    ]
    return [
        check(
            "appendonly",
            "yes" if appends else "no",
            ok=appends,
            remedy="a restart loses everything since the last snapshot: set appendonly yes",
        ),
        check(
            "last write of its files",
            ", ".join(failing) or "ok",
            ok=not failing,
            remedy="it cannot write: look at its log and its disk",
        ),
    ]


def check_memory(info: Mapping[str, str]) -> list[Finding]:
    """Check that Valkey has enough memory and evicts no work."""
    policy, limit = info.get("maxmemory_policy", "noeviction"), int(info.get("maxmemory", "0"))
    used = int(info.get("used_memory", "0"))
    usage = f"{used // 2**20} MiB of {limit // 2**20} MiB" if limit else f"{used // 2**20} MiB, no limit"
    return [
        check(
            "maxmemory-policy",
            policy,
            ok=not policy.startswith("allkeys"),
            remedy="it would evict work: set noeviction",
        ),
        check(
            "memory",
            usage,
            ok=not limit or used < limit * MAX_MEMORY_SHARE,
            remedy="it is nearly full: raise maxmemory, or keep results for a shorter time",
        ),
    ]
