"""The stores, and the one place that knows which URL opens which."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from flowfabric.model.errors import invalid
from flowfabric.storage.base import Upkeep
from flowfabric.storage.extras import install_command
from flowfabric.storage.resolve import EMBEDDED, sqlite_parts
from flowfabric.storage.seeding import secret_from_environment, seed

Opener = Callable[..., Awaitable[Upkeep]]

__all__ = ["open_store", "open_unseeded", "opens"]


async def open_store(url: str, **options: Any) -> Upkeep:
    """Open the store that a URL names; a new one is ready for use, with a waitpoint secret (`seeding`).

    ::

        store = await open_store("work.db", synchronous="FULL")
        store = await open_store("valkey://localhost:6379/0", wait=1)

    - A path, `sqlite:///relative.db`, `sqlite:////absolute.db` or `:memory:`; options as in `SqliteStore.open`;
      `synchronous` may stand in the URL, where it counts more: `sqlite:///work.db?synchronous=FULL`.
    - `valkey://[user:password@]host[:port][/database]`, with TLS `valkeys://`, a cluster `valkey+cluster://`. `wait`
      says how many replicas must confirm what is written, `patience` how many seconds a server may take to start.
    - `http://host:port` and `https://…` reach the store of a server; options as in `HttpClient.open`.

    An address that cannot be used is refused with an error that says what to change.
    """
    if url.startswith(("http://", "https://")):
        from flowfabric.client import HttpClient  # noqa: PLC0415 - the one import upwards, for the sake of one name

        return await HttpClient.open(url, **options)
    secret = secret_from_environment()
    store = await open_unseeded(url, **options)
    try:
        await seed(store, secret)
    except BaseException:
        await store.close()
        raise
    return store


def opens(url: str) -> bool:
    """Say whether there is a store for a URL."""
    scheme, separator, _ = url.partition("://")
    return not separator or scheme in _OPENERS


async def open_unseeded(url: str, **options: Any) -> Upkeep:
    """Open a store as `open_store` does, but leave its waitpoint secret to the caller."""
    scheme, separator, _ = url.partition("://")
    opener = _OPENERS.get(scheme if separator else EMBEDDED)
    if opener is None:
        known = ", ".join(f"{name}://" for name in (*_OPENERS, "http", "https"))
        raise invalid("url", f"no store opens {scheme}://; there is {known}, or a plain path")
    return await opener(url, **options)


async def _open_sqlite(url: str, **options: Any) -> Upkeep:
    path, said = sqlite_parts(url)
    if not path:
        raise invalid("url", "name a file, or :memory:")
    from flowfabric.storage.sqlite import SqliteStore  # noqa: PLC0415 - a driver loads when its URL is opened

    return await SqliteStore.open(path, **options | said)


async def _open_valkey(url: str, **options: Any) -> Upkeep:
    try:
        from flowfabric.storage.valkey import open_valkey  # noqa: PLC0415 - a driver loads when its URL is opened
    except ImportError as error:
        raise invalid("url", f"valkey:// needs the driver: {install_command('valkey')}") from error
    return await open_valkey(url, **options)


_OPENERS: Final[dict[str, Opener]] = {
    "sqlite": _open_sqlite,
    "valkey": _open_valkey,
    "valkeys": _open_valkey,
    "valkey+cluster": _open_valkey,
    "valkeys+cluster": _open_valkey,
}
