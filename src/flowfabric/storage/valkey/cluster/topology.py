"""Which server of a cluster holds which slot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

from valkey.crc import key_slot

from flowfabric.model.errors import invalid

SLOTS: Final = 16_384
SCHEMES: Final = {
    "valkey+cluster": "valkey",
    "valkeys+cluster": "valkeys",
    "redis+cluster": "valkey",
    "rediss+cluster": "valkeys",
}
"""How a cluster is written in a URL, and how one of its servers is."""


def is_cluster(url: str) -> bool:
    """Whether a URL names a cluster."""
    return url.partition("://")[0] in SCHEMES


def servers_of(url: str) -> list[str]:
    """Return the URLs of the servers that a URL of a cluster names: `valkey+cluster://user:secret@a:7000,b:7001`."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    if not hosts or parts.path.strip("/") not in {"", "0"}:
        raise invalid(
            "store", "name at least one server of the cluster, and no database: a cluster has only 0"
        )
    return [_with_host(parts, f"{user}{at}{host}") for host in hosts.split(",")]


def beside(url: str, address: str) -> str:
    """Return the URL of another server of the same cluster."""
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    return _with_host(parts, f"{user}{at}{address}")


def _with_host(parts: SplitResult, netloc: str) -> str:
    return urlunsplit((SCHEMES.get(parts.scheme, parts.scheme), netloc, "/0", parts.query, ""))


class Slots:
    """Who holds what, as a server of the cluster told it."""

    def __init__(self, rows: Iterable[list[Any]], asked_host: str, about: bytes = b"") -> None:
        """Read the answers to CLUSTER SLOTS and CLUSTER INFO."""
        self.owner: list[str] = [""] * SLOTS
        said = dict(line.split(b":", 1) for line in about.split() if b":" in line)
        self.epoch = int(said.get(b"cluster_current_epoch", 0))
        """Who has seen more changes has a greater one."""
        self._homes: Sequence[str] = ()
        self._shared: dict[str, list[str]] = {}
        for first, last, primary, *_ in rows:
            host = primary[0].decode() if primary[0] else asked_host
            address = f"[{host}]:{primary[1]}" if ":" in host else f"{host}:{primary[1]}"
            self.owner[first : last + 1] = [address] * (last + 1 - first)
        self.primaries = tuple(sorted(set(self.owner) - {""}))
        """The addresses of all servers that hold slots."""

    @property
    def complete(self) -> bool:
        """Whether every slot is served."""
        return all(self.owner)

    def of(self, key: str | bytes) -> str:
        """Return the address of the server that holds a key; empty when none does."""
        return self.owner[key_slot(key if isinstance(key, bytes) else key.encode())]

    def shared_out(self, homes: Sequence[str]) -> dict[str, list[str]]:
        """Return the homes on each server; the same are asked for again and again."""
        if homes is not self._homes:
            self._homes, self._shared = homes, defaultdict(list)
            for home in homes:
                self._shared[self.of(home)].append(home)
        return self._shared
