"""Which servers we can use: what a server says of itself, and what each fault is called, with its remedy."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Mapping
from typing import Final

from flowfabric.model.errors import StoreBusy, StoreUnusable, Unreachable
from flowfabric.storage.valkey.connection.client import Client

OLDEST: Final = (7, 2)
PROBE_SECONDS: Final = 2.0

log = logging.getLogger("flowfabric.valkey")


async def check_server(node: Client, *, clustered: bool) -> None:
    """Raise what is wrong with a server: `StoreBusy` and `Unreachable` may pass, `StoreUnusable` does not."""
    try:
        text: bytes = await node.call("INFO")
    except Unreachable:
        await _explain_silence(node)
        raise
    check_info(_read_info(text), node.where, clustered=clustered)


def _read_info(text: bytes) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines())
    return {name: value for name, colon, value in pairs if colon}


def check_info(info: Mapping[str, str], where: str, *, clustered: bool) -> None:
    """Judge a server by its answer to INFO."""
    if info.get("loading", "0") != "0":
        raise StoreBusy(f"{where} is still loading its data")
    _check_version(info, where)
    _check_mode(info, where, clustered=clustered)
    if info.get("role") == "slave":
        primary = f"{info.get('master_host', '?')}:{info.get('master_port', '?')}"
        raise StoreUnusable(f"{where} is a read-only replica; name its primary, {primary}")
    _check_memory(info, where)


def _check_version(info: Mapping[str, str], where: str) -> None:
    is_valkey = info.get("server_name", "").lower() == "valkey" or "valkey_version" in info
    text = info.get("valkey_version") or info.get("redis_version", "")
    digits = text.split(".")[:2]
    if len(digits) < 2 or not all(part.isdecimal() for part in digits):
        raise StoreBusy(f"{where} does not say which version it is: '{text}'")
    if (int(digits[0]), int(digits[1])) < OLDEST:
        raise StoreUnusable(f"{where} is version {text}; upgrade it to 7.2 or newer")
    if not is_valkey:
        log.warning("%s is Redis %s; FlowFabric is tested with Valkey", where, text)


def _check_mode(info: Mapping[str, str], where: str, *, clustered: bool) -> None:
    is_cluster = info.get("cluster_enabled", "0") == "1"
    scheme, _, rest = where.partition("://")
    if is_cluster and not clustered:
        raise StoreUnusable(f"{where} is part of a cluster; open it with {scheme}+cluster://{rest}")
    if clustered and not is_cluster:
        raise StoreUnusable(
            f"{where} is not part of a cluster; open it with {scheme.removesuffix('+cluster')}://{rest}"
        )


def _check_memory(info: Mapping[str, str], where: str) -> None:
    """Refuse to be evicted. Nothing of ours has a time to live, so policies for such keys touch nothing of ours."""
    eviction = info.get("maxmemory_policy", "noeviction")
    if not eviction.startswith("allkeys"):
        return
    if info.get("maxmemory", "0") != "0":
        raise StoreUnusable(
            f"{where} has maxmemory-policy {eviction} and would throw work away; set it to noeviction"
        )
    log.warning("%s has maxmemory-policy %s; set it to noeviction before you set maxmemory", where, eviction)


async def _explain_silence(node: Client) -> None:
    """Say so when the server is there, but speaks TLS where we do not, or the other way round."""
    kwargs = node.pool.connection_kwargs
    host, port = str(kwargs.get("host", "localhost")), int(kwargs.get("port", 6379))
    scheme, _, rest = node.where.partition("://")
    secure = scheme.startswith("valkeys")
    if not await _speaks(host, port, secure=not secure):
        return
    if secure:
        other = f"valkey{scheme.removeprefix('valkeys')}://{rest}"
        raise StoreUnusable(f"{node.where} does not speak TLS on that port; use its port for TLS, or {other}")
    raise StoreUnusable(
        f"{node.where} wants TLS on that port; use valkeys{scheme.removeprefix('valkey')}://{rest}"
    )


async def _speaks(host: str, port: int, *, secure: bool) -> bool:
    """Say whether a server answers PING in the clear, or a greeting through TLS whoever it is."""
    context: ssl.SSLContext | None = None
    if secure:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(PROBE_SECONDS):
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
            try:
                writer.write(b"PING\r\n")
                return secure or (await reader.readexactly(1)) in {b"+", b"-"}
            finally:
                writer.close()
    return False
