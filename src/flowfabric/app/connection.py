"""The store of an app: opened on first use, and shared by everything on one event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager

from flowfabric.model.errors import invalid
from flowfabric.storage import open_store
from flowfabric.storage.base import Commands
from flowfabric.storage.resolve import make_folder, store_url


class StoreConnection:
    """Opens the store at a URL on first use, or returns the store that it was given."""

    def __init__(self, url: str, store: Commands | None) -> None:
        if store is not None and url:
            raise invalid("store", "give a URL or a store, not both")
        self._url = url
        self._given = store
        self._store: Commands | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock: asyncio.Lock | None = None
        self._users = 0
        self._process = os.getpid()
        self._origin: StoreConnection | None = None
        self._lent_on: asyncio.AbstractEventLoop | None = None

    @property
    def url(self) -> str:
        """The URL that is opened; empty if a store was given."""
        return "" if self._given is not None else store_url(self._url)

    def of_its_own(self) -> StoreConnection:
        """Return another connection to the same store, for another event loop. A lent store is used there too."""
        if self._given is not None and self._lent_on is None:
            raise invalid(
                "store", "an app on a store of yours lives on one event loop: give it a URL instead"
            )
        other = StoreConnection(self._url, None)
        other._origin = self
        return other

    @property
    def lent_on(self) -> asyncio.AbstractEventLoop | None:
        """The event loop on which a store was lent, and on which everything must run for now."""
        return self._lent_on if self._origin is None else self._origin.lent_on

    async def get(self) -> Commands:
        """Return the store; open it on first use."""
        if self._given is not None:
            return self._given
        if self._origin is not None and self._origin.lent_on is not None:
            return await self._origin.get()
        loop = asyncio.get_running_loop()
        if self._loop is not loop or self._process != os.getpid():
            self._move(loop)
        if self._store is not None:
            return self._store
        assert self._lock is not None
        async with self._lock:
            if self._store is None:
                url = self.url
                make_folder(url)
                self._store = await open_store(url)
        return self._store

    def _move(self, loop: asyncio.AbstractEventLoop) -> None:
        """Switch to another event loop, after `asyncio.run` has ended the earlier one, or after a fork."""
        here = self._process == os.getpid()
        if here and self._store is not None and self._loop is not None and not self._loop.is_closed():
            raise RuntimeError(
                "the app is in use on another event loop: use app.sync there, or await app.close() first"
            )
        self._process = os.getpid()
        self._loop, self._lock, self._store = loop, asyncio.Lock(), None

    @contextmanager
    def lent(self, store: Commands) -> Iterator[None]:
        """Return another store from `get` inside the block; the own store stays open."""
        own = self._given, self._store, self._lent_on
        self._given, self._store, self._lent_on = store, None, _running_loop()
        try:
            yield
        finally:
            self._given, self._store, self._lent_on = own

    async def enter(self) -> None:
        """Add a user, and open the store."""
        await self.get()
        self._users += 1

    async def leave(self) -> None:
        """Remove a user; the last one closes the store."""
        self._users -= 1
        if not self._users:
            await self.close()

    async def close(self) -> None:
        """Close the store, unless it was given: then its owner closes it."""
        store, self._store = self._store, None
        if store is not None:
            await store.close()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
