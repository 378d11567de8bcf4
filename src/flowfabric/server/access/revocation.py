"""What lasts in the name of a token - streams, long polls - ends with it, wherever the token was deleted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Final

from flowfabric.model.errors import FlowFabricError
from flowfabric.server.access.auth import Access
from flowfabric.server.access.roles import Principal

LOOK_SECONDS: Final = 0.25
"""How often the tokens in use are looked at: with the second for which they may be known, they end within two."""

log = logging.getLogger("flowfabric.server")
End = Callable[[], object]


class Revocation:
    """Looks at the tokens in whose name something lasts, for as long as there are any."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lasting: dict[str, set[End]] = {}
        self._looking: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def watching(self, principal: Principal, end: End) -> Iterator[None]:
        """Call `end`, a function of the caller's own, if the token of a principal is deleted or expires meanwhile."""
        token_id = principal.token_id
        if not token_id:
            yield
            return
        self._lasting.setdefault(token_id, set()).add(end)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="flowfabric-revocation")
        try:
            yield
        finally:
            ends = self._lasting[token_id]
            ends.discard(end)
            if not ends:
                del self._lasting[token_id]
            if not self._lasting:
                self._looking.cancel()
                self._looking = None

    async def _look(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._access.changed.wait()
            self._access.changed.clear()
            try:
                living = await self._access.living()
            except FlowFabricError as error:  # while the store is away, nothing is sent or claimed either
                log.warning("tokens cannot be looked at: %s", error.code)
                continue
            for token_id in self._lasting.keys() - living:
                for end in list(self._lasting[token_id]):
                    end()
