"""HTTP for a server: sockets, connections, and their end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import time
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Final

import uvicorn

from flowfabric.server.http.transport import TransportLimits, protocol_with, sweep
from flowfabric.variables import url_of

if TYPE_CHECKING:
    from flowfabric.server.server import Server
    from flowfabric.server.settings import Settings

REQUEST_SECONDS: Final = 30
"""How long requests under way may take once a shutdown has begun."""
KEEP_ALIVE_SECONDS: Final = 75
BACKLOG: Final = 2048
CANCEL_SECONDS: Final = 2.0

log = logging.getLogger("flowfabric.server")


class _Http(uvicorn.Server):
    """Uvicorn without its own ideas about signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def bind(settings: Settings) -> list[socket.socket]:
    """Bind every address of the configured host; nobody is let in before the sockets are served."""
    host, port = settings.listen
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, place in dict.fromkeys(found):
            # With port 0 the first address chooses, and the others follow.
            chosen = sockets[0].getsockname()[1] if sockets and not port else place[1]
            sockets.append(_bound(family, kind, protocol, (place[0], chosen, *place[2:])))
    except BaseException:
        for opened in sockets:
            opened.close()
        raise
    return sockets


def problem(settings: Settings, error: OSError) -> str:
    """Say why nobody can listen there, and what to do."""
    taken = "end what listens there, or " if error.errno == errno.EADDRINUSE else ""
    remedy = f"{taken}choose another address with --listen HOST:PORT or FF_LISTEN_ADDR"
    return f"cannot listen on {settings.listen_text}: {error.strerror or error}; {remedy}"


def _bound(family: int, kind: int, protocol: int, place: tuple[object, ...]) -> socket.socket:
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.bind(place)
        opened.setblocking(False)
    except BaseException:
        opened.close()
        raise
    return opened


def where(bound: socket.socket) -> str:
    """Write the address of a socket."""
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def serve(
    server: Server, sockets: Sequence[socket.socket], ready: Callable[[], None] | None = None
) -> None:
    """Answer until the server is told to stop, then let requests end within their limit."""
    opened = list(sockets) or bind(server.settings)
    server.address = url_of(*opened[0].getsockname()[:2])
    limits = TransportLimits(connections=server.settings.max_connections)
    config = uvicorn.Config(
        server.app,
        http=protocol_with(limits, server.unread),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=REQUEST_SECONDS,
    )
    http = _Http(config)
    async with asyncio.TaskGroup() as tasks:
        sweeping = tasks.create_task(sweep(http.server_state.connections), name="flowfabric-sweep")
        telling = tasks.create_task(_announce(http, opened, ready), name="flowfabric-announce")
        stopping = tasks.create_task(_pass_on(server, http), name="flowfabric-stop")
        try:
            await http.serve(sockets=opened)
        finally:
            for task in (sweeping, telling, stopping):
                task.cancel()
            await _cut(http)


async def _announce(
    http: uvicorn.Server, opened: Sequence[socket.socket], ready: Callable[[], None] | None
) -> None:
    while not http.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.005)
    for bound in opened:
        log.info("HTTP API listening addr=%s", where(bound))
    if ready is not None:
        ready()


async def _pass_on(server: Server, http: uvicorn.Server) -> None:
    await server.stopping.wait()
    log.info("shutdown: no new connections, requests may take timeout_s=%d", REQUEST_SECONDS)
    http.should_exit = True


async def _cut(http: uvicorn.Server) -> None:
    """End what is left after the limit."""
    begin = time.monotonic()
    left = {task for task in http.server_state.tasks if not task.done()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=CANCEL_SECONDS)
        log.warning(
            "shutdown: cancelled %d requests elapsed_ms=%d", len(left), (time.monotonic() - begin) * 1000
        )
    for connection in list(http.server_state.connections):
        connection.transport.close()
