"""The server as a library: a store, its engine, and the gate in front of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from flowfabric.engine import Engine
from flowfabric.engine.kinds import KindCache
from flowfabric.model.command import Command
from flowfabric.model.errors import FlowFabricError
from flowfabric.server.access.auth import Access
from flowfabric.server.access.permits import Permits, WaitedPermits
from flowfabric.server.access.revocation import Revocation
from flowfabric.server.access.roles import Principal
from flowfabric.server.http.cors import Cors
from flowfabric.server.http.gate import Gate, Unfinished
from flowfabric.server.http.sending import Unread
from flowfabric.server.live.feed import Live
from flowfabric.server.observe.metered import metered
from flowfabric.server.observe.tally import Tally
from flowfabric.server.routes import load_routes
from flowfabric.server.settings import Settings
from flowfabric.storage.base import Upkeep
from flowfabric.variables import url_of
from flowfabric.wire.rights import Right

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp

    from flowfabric.server.observe.metrics import ServerMetrics
    from flowfabric.server.observe.tracing import ServerTracing

R = TypeVar("R")
LARGE_CLAIMS: Final = 4
"""How many claims of many tasks are on their way at once: together their inputs may be large."""


class Server:
    """Everything that one server process holds; usable without HTTP and in tests.

    `await Server.start(settings)` opens and prepares the store and starts the engine, `serve()` answers HTTP until
    `stop()` is called, and `shutdown()` ends everything in order. A store that the caller brought stays the caller's.
    """

    def __init__(
        self,
        store: Upkeep,
        *,
        settings: Settings | None = None,
        api_token: str = "",
        registry: Any = None,
        tracing: ServerTracing | None = None,
    ) -> None:
        load_routes()
        self.settings = settings or Settings(api_token=api_token)
        self.metrics = _metrics(registry)
        """What is counted; none where prometheus_client is not installed."""
        store = store if self.metrics is None else metered(store, self.metrics)
        self.tracing = tracing
        self.store = store if tracing is None else tracing.beneath(store)
        """What requests use; what runs by itself is not part of anybody's trace."""
        self.engine = Engine(
            store,
            collect_seconds=self.settings.collect_seconds,
            repair_seconds=self.settings.repair_seconds,
        )
        self.owns_store = False
        self.address = url_of(*self.settings.listen)
        """Where this server itself is reached; links lead there when no public address is set."""
        self.stopping = asyncio.Event()
        """Set when the server begins to shut down: what waits or streams without end watches it."""
        self.stream_ops = Permits("stream_ops", self.settings.max_stream_ops)
        self.large_claims = WaitedPermits("large_claims", LARGE_CLAIMS)
        self.unread = Unread()
        self.unfinished = Unfinished()
        self.tally = Tally()
        self.background: set[asyncio.Task[Any]] = set()
        self.shutdown_timeouts = 0
        self.access = Access(
            store,
            self.settings.api_token,
            any_host=self.settings.allow_unauthenticated,
            public_url=self.settings.public_url,
        )
        self.kinds = KindCache()
        """Defaults of submissions by name."""
        self.revocation = Revocation(self.access)
        self.live = Live(
            store, self.stopping, self.revocation, self.settings.max_sse, self.settings.max_sse_per_token
        )
        self.live.on_told = self._told
        self.rotating = asyncio.Lock()
        gate: ASGIApp = Gate(self)
        gate = gate if tracing is None else tracing.around(gate)
        self.app = Cors(gate, self.settings.cors_origins, with_token=self.access.closed)

    @classmethod
    async def start(
        cls,
        settings: Settings,
        *,
        store: Upkeep | None = None,
        registry: Any = None,
        tracing: ServerTracing | None = None,
    ) -> Self:
        """Open and prepare the store, unless one is given, and start the engine."""
        from flowfabric.server.boot import start  # noqa: PLC0415 - boot knows the server

        return await start(cls, settings, store, registry, tracing)

    async def serve(
        self, sockets: Sequence[socket.socket] = (), ready: Callable[[], None] | None = None
    ) -> None:
        """Answer HTTP until `stop()`; then let requests end. Without sockets the settings say where."""
        from flowfabric.server.http.listener import serve  # noqa: PLC0415 - only those who serve need it

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

    async def admit(self, headers: dict[bytes, bytes], right: Right | None) -> Principal:
        """Say who asks; refuse who may not."""
        return await self.access.admit(headers, right)

    async def apply(self, command: Command[R], namespace: str = "") -> R:
        """Send a command to the store; `namespace` is the one that its sender is bound to."""
        reply = await self.store.apply(command)
        self.tally.note(command, reply, namespace)
        return reply

    async def apply_many(
        self, commands: Sequence[Command[R]], namespace: str = ""
    ) -> list[R | FlowFabricError]:
        """Send several commands to the store, each on its own."""
        replies = await self.store.apply_many(commands)
        for command, reply in zip(commands, replies, strict=True):
            self.tally.note(command, reply, namespace)
        return replies

    @contextmanager
    def claiming(self, lane: str) -> Iterator[None]:
        """Time a claim that takes several steps, whatever comes of it."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            if self.metrics is not None:
                self.metrics.claimed((lane,), time.perf_counter() - begin)

    def observe(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        if self.metrics is not None:
            self.metrics.request(method, path, status, seconds)

    def _told(self, at: int) -> None:
        if self.metrics is not None:
            self.metrics.told((self.store.now() - at) / 1000)


def _metrics(registry: Any) -> ServerMetrics | None:
    try:
        from flowfabric.server.observe.metrics import ServerMetrics  # noqa: PLC0415 - needs prometheus_client
    except ImportError:
        if registry is not None:
            raise
        return None
    return ServerMetrics(registry)
