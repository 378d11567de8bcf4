"""The server as a library: a store, its engine, and the gate in front of them."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from flowfabric.engine import Engine
from flowfabric.model.contracts.base import Command
from flowfabric.model.errors import FlowFabricError
from flowfabric.server.errors import HttpError
from flowfabric.server.gate import Gate
from flowfabric.server.permits import Permits
from flowfabric.server.roles import ANYBODY, Need, Principal, Role
from flowfabric.server.routes import load_routes
from flowfabric.server.settings import Settings
from flowfabric.server.tally import Tally
from flowfabric.storage.base import Upkeep

if TYPE_CHECKING:
    import socket

    from flowfabric.server.routing import Endpoint

R = TypeVar("R")
NO_TOKEN = "missing or invalid Authorization header"  # noqa: S105 - a message


class Server:
    """Everything that one server process holds; usable without HTTP and in tests.

    `await Server.start(settings)` opens and prepares the store and starts the engine, `serve()` answers HTTP until
    `stop()` is called, and `shutdown()` ends everything in order. A store that the caller brought stays the caller's.
    """

    def __init__(
        self, store: Upkeep, *, settings: Settings | None = None, api_token: str = "", registry: Any = None
    ) -> None:
        load_routes()
        self.store = store
        self.settings = settings or Settings(api_token=api_token)
        self.registry = registry
        """Where metrics are counted; none: one of our own."""
        self.engine = Engine(
            store,
            collect_seconds=self.settings.collect_seconds,
            repair_seconds=self.settings.repair_seconds,
        )
        self.owns_store = False
        self.stopping = asyncio.Event()
        """Set when the server begins to shut down: what waits or streams without end watches it."""
        self.stream_ops = Permits("stream_ops", self.settings.max_stream_ops)
        self.tally = Tally()
        self.background: set[asyncio.Task[Any]] = set()
        self.shutdown_timeouts = 0
        self._api_token = self.settings.api_token
        self.app = Gate(self)

    @classmethod
    async def start(cls, settings: Settings, *, store: Upkeep | None = None, registry: Any = None) -> Self:
        """Open and prepare the store, unless one is given, and start the engine."""
        from flowfabric.server.boot import start  # noqa: PLC0415 - boot knows the server

        return await start(cls, settings, store, registry)

    async def serve(
        self, sockets: Sequence[socket.socket] = (), ready: Callable[[], None] | None = None
    ) -> None:
        """Answer HTTP until `stop()`; then let requests end. Without sockets the settings say where."""
        from flowfabric.server.listener import serve  # noqa: PLC0415 - only those who serve need it

        await serve(self, sockets, ready)

    def stop(self) -> None:
        """Begin to shut down."""
        self.stopping.set()

    async def shutdown(self) -> bool:
        """End in order, each step within its limit; say whether every step ended by itself."""
        from flowfabric.server.boot import shutdown  # noqa: PLC0415 - boot knows the server

        return await shutdown(self)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        """Do something after the answer; a shutdown waits for it."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.background.add(task)
        task.add_done_callback(self.background.discard)

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
        reply = await self.store.apply(command)
        self.tally.note(reply)
        return reply

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Send several commands to the store, each on its own."""
        replies = await self.store.apply_many(commands)
        for reply in replies:
            self.tally.note(reply)
        return replies

    def observe(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request."""
