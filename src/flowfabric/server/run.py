"""A server as a process: logs, signals, exit codes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Final

from flowfabric.logs import configure
from flowfabric.model.errors import FlowFabricError
from flowfabric.server.settings import Settings
from flowfabric.storage import opens
from flowfabric.storage.resolve import family

OK: Final = 0
FAILED: Final = 1
NOT_READY: Final = 2
"""The store is of a kind that this version cannot open."""
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

log = logging.getLogger("flowfabric.server")


def set_up_logs(level: str, form: str) -> None:
    """Write logs to standard error; audit lines come whatever the level is."""
    configure(form, level, sys.stderr)
    # What clients do wrong below HTTP is answered, not told.
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def run(settings: Settings) -> int:
    """Serve until a signal, and return the exit code."""
    set_up_logs(settings.log_level, settings.log_format)
    raise_file_limit()
    if settings.processes > 1:
        from flowfabric.server.processes import supervise  # noqa: PLC0415 - only those who fork need it

        return supervise(settings)
    return run_one(settings)


def run_one(
    settings: Settings,
    sockets: Sequence[socket.socket] = (),
    *,
    ready: Callable[[], None] | None = None,
    lifeline: int = -1,
) -> int:
    """Run one process: `ready` is called when it serves; it stops when `lifeline` ends, too."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_run(settings, sockets, ready, lifeline))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - it is faster, and not everywhere
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _run(
    settings: Settings, sockets: Sequence[socket.socket], ready: Callable[[], None] | None, lifeline: int
) -> int:
    from flowfabric.server.http.listener import bind, problem  # noqa: PLC0415 - loads the HTTP machinery
    from flowfabric.server.server import Server  # noqa: PLC0415 - loads every route

    try:
        server = await Server.start(settings)
    except FlowFabricError as error:
        return refused(settings, error)
    try:
        opened = list(sockets) or bind(settings)
    except OSError as error:
        await server.shutdown()
        return failed(problem(settings, error))
    with _signals(server.stop), _lifeline(lifeline, server.stop):
        try:
            await server.serve(opened, ready)
        finally:
            clean = await server.shutdown()
    return OK if clean else FAILED


def failed(problem: str, code: int = FAILED) -> int:
    """Say why the server does not start, and return the exit code."""
    log.error("failed to start server: %s (exit_code=%d)", problem, code)
    return code


def refused(settings: Settings, error: FlowFabricError) -> int:
    """Say why the store cannot be used, and return the exit code."""
    if not opens(settings.store):
        return failed(f"this version has no store for {family(settings.store)}: {error.text}", NOT_READY)
    if error.code == "partition_mismatch":
        return failed(f"partition_mismatch: {error.text}")
    return failed(f"{error.field}: {error.text}" if error.field else error.text)


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """Stop in order at the first signal and at once at the second."""
    loop = asyncio.get_running_loop()
    seen = False

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal seen
        if seen:
            os._exit(128 + number)
        seen = True
        loop.call_soon_threadsafe(stop)

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _lifeline(descriptor: int, stop: Callable[[], None]) -> Iterator[None]:
    """Stop when the parent is gone: its end of the pipe closes with it."""
    if descriptor < 0:
        yield
        return
    loop = asyncio.get_running_loop()

    def gone() -> None:
        loop.remove_reader(descriptor)
        stop()

    loop.add_reader(descriptor, gone)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)


def raise_file_limit() -> None:
    """Allow as many connections as the system lets us."""
    try:
        import resource  # noqa: PLC0415 - not on Windows
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
