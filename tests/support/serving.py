"""What a server of the suites stands on: every store that several processes can share.

A store that joins the project joins the table, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from msgspec import Struct

from support.server import Api
from support.stores import CHOSEN, chosen
from support.valkey import empty_server
from support.valkey_cluster import shared_cluster

Serve = Callable[..., Awaitable[Api]]
"""What the fixture that starts servers is, for signatures."""
SECRET = "ab" * 32


class Backend(Struct, frozen=True):
    """Where the stores of one test lie; each has a number."""

    name: str
    pattern: str

    def url(self, number: int = 1) -> str:
        """A store of its own for each number."""
        return self.pattern.format(number)

    @property
    def flags(self) -> tuple[str, str]:
        """What `ff server` is told to serve the first of them."""
        return "--store", self.url()


@asynccontextmanager
async def _sqlite(folder: Path) -> AsyncIterator[Backend]:
    yield Backend("sqlite", str(folder / "server{}.db"))


@asynccontextmanager
async def _valkey(_folder: Path) -> AsyncIterator[Backend]:
    async with empty_server() as server:
        yield Backend("valkey", f"valkey://127.0.0.1:{server.port}/{{}}")


@asynccontextmanager
async def _valkey_cluster(_folder: Path) -> AsyncIterator[Backend]:
    cluster = shared_cluster()
    cluster.empty()
    yield Backend("valkey-cluster", cluster.url)


BACKENDS: dict[str, Callable[[Path], AbstractAsyncContextManager[Backend]]] = {
    "sqlite": _sqlite,
    "valkey": _valkey,
    "valkey-cluster": _valkey_cluster,
}
USUAL = ("sqlite", "valkey")
"""Where every suite of servers runs; on a cluster, which holds one store, when it is asked for by name."""


def backends(*, everywhere: bool = False) -> list[str]:
    """Name the stores that a suite of servers runs on."""
    return [name for name in chosen(BACKENDS) if everywhere or CHOSEN or name in USUAL]
