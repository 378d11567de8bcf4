"""The server as a library: a store, its engine, and the gate in front of them."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from flowfabric.engine import Engine
from flowfabric.model.contracts.base import Command
from flowfabric.model.errors import FlowFabricError
from flowfabric.server.errors import HttpError
from flowfabric.server.gate import Gate
from flowfabric.server.roles import ANYBODY, Need, Principal, Role
from flowfabric.server.routes import load_routes
from flowfabric.storage.base import Upkeep

if TYPE_CHECKING:
    from flowfabric.server.routing import Endpoint

R = TypeVar("R")
NO_TOKEN = "missing or invalid Authorization header"  # noqa: S105 - a message


class Server:
    """Everything that one server process holds; usable without HTTP and in tests."""

    def __init__(self, store: Upkeep, *, api_token: str = "") -> None:
        load_routes()
        self.store = store
        self.engine = Engine(store)
        self._api_token = api_token
        self.app = Gate(self)

    def admit(self, headers: dict[bytes, bytes], route: Endpoint | None) -> Principal:
        """Say who asks; refuse who may not."""
        if not self._api_token or (route is not None and route.need is Need.NOTHING):
            return ANYBODY
        given = headers.get(b"authorization", b"")
        if not hmac.compare_digest(given, b"Bearer " + self._api_token.encode()):
            raise HttpError(401, NO_TOKEN, "unauthorized", kind="unauthorized")
        return Principal("admin", Role.ADMIN)

    async def apply(self, command: Command[R]) -> R:
        """Send a command to the store."""
        return await self.store.apply(command)

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Send several commands to the store, each on its own."""
        return await self.store.apply_many(commands)

    def observe(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request."""
