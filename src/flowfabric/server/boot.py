"""How a server begins and how it ends, apart from HTTP."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import flowfabric
from flowfabric.model.operations.lane import OpenLane
from flowfabric.server.observe.telemetry import tracing_from
from flowfabric.storage import open_unseeded
from flowfabric.storage.base import Upkeep
from flowfabric.storage.resolve import family, make_folder, without_password
from flowfabric.storage.seeding import seed

if TYPE_CHECKING:
    from flowfabric.server.observe.tracing import ServerTracing
    from flowfabric.server.server import Server
    from flowfabric.server.settings import Settings

S = TypeVar("S", bound="Server")
STEP_SECONDS: Final = 15.0
"""How long each step of a shutdown may take."""

log = logging.getLogger("flowfabric.server")


async def start(
    kind: type[S],
    settings: Settings,
    store: Upkeep | None,
    registry: Any,
    tracing: ServerTracing | None = None,
) -> S:
    """Open and prepare the store, unless one is given, and start the engine over it."""
    mine = store is None
    ready = await _open(settings) if store is None else store
    try:
        if mine or settings.hmac_secret:
            await seed(ready, settings.hmac_secret)
        await ready.apply_many([OpenLane(lane_id=lane) for lane in settings.lanes])
        server = kind(
            ready, settings=settings, registry=registry, tracing=tracing or tracing_from(os.environ)
        )
        server.owns_store = mine
        _tell(settings, ready)
        await server.engine.__aenter__()
    except BaseException:
        if mine:
            await ready.close()
        raise
    return server


async def _open(settings: Settings) -> Upkeep:
    make_folder(settings.store)
    options: dict[str, Any] = {"partitions": settings.partitions}
    if settings.embedded:
        options["synchronous"] = settings.sqlite_synchronous
    elif family(settings.store) == "valkey":
        options["wait"] = settings.valkey_wait
        options["patience"] = settings.valkey_patience_s
    return await open_unseeded(settings.store, **options)


def _tell(settings: Settings, store: Upkeep) -> None:
    """Say in the log what was started, and what somebody should know about it."""
    for warning in settings.warnings:
        log.warning("%s", warning)
    if settings.open_to_anybody:
        listen = settings.listen_text
        log.warning(
            "FF_API_TOKEN is not set: anybody who reaches listen_addr=%s may use /v1/admin/*, "
            "secret rotation included",
            listen,
        )
        log.warning(
            "FF_API_TOKEN is not set: anybody who reaches listen_addr=%s may read waitpoint tokens "
            "(/v1/executions/{id}/waitpoints/{waitpoint_id}/token) and results (/v1/executions/{id}/result)",
            listen,
        )
    if ":memory:" in settings.store:
        log.warning("the store is in memory: everything is lost when this process ends")
    counts = store.partitions
    log.info(
        "server started version=%s store=%s flow_partitions=%d budget_partitions=%d quota_partitions=%d lanes=%s "
        "listen_addr=%s",
        flowfabric.__version__,
        without_password(settings.store),
        counts.flow,
        counts.budget,
        counts.quota,
        ",".join(settings.lanes),
        settings.listen_text,
    )


async def shutdown(server: Server) -> bool:
    """End everything but HTTP. Each step has its limit, and runs whatever became of the one before."""
    begin = time.monotonic()
    server.stop()
    clean = await _step(server, "background work", lambda: _drain(server))
    clean = await _step(server, "engine", lambda: server.engine.__aexit__(None, None, None)) and clean
    if server.owns_store:
        clean = await _step(server, "store", server.store.close) and clean
    if server.tracing is not None:
        clean = await _step(server, "traces", server.tracing.close) and clean
    log.info("shutdown complete elapsed_ms=%d", (time.monotonic() - begin) * 1000)
    return clean


async def _step(server: Server, name: str, work: Callable[[], Awaitable[Any]]) -> bool:
    try:
        async with asyncio.timeout(STEP_SECONDS):
            await work()
    except TimeoutError:
        server.shutdown_timeouts += 1
        if server.metrics is not None:
            server.metrics.ended_late()
        log.warning("shutdown: %s did not end within timeout_s=%d, going on", name, STEP_SECONDS)
        return False
    except Exception:
        log.exception("shutdown: %s failed, going on", name)
        return False
    return True


async def _drain(server: Server) -> None:
    """Let background work end; what does not is cancelled."""
    left = set(server.background)
    if not left:
        return
    _, late = await asyncio.wait(left, timeout=STEP_SECONDS * 0.9)
    for task in late:
        task.cancel()
    if late:
        log.warning("shutdown: cancelled %d background tasks after timeout_s=%d", len(late), STEP_SECONDS)
        await asyncio.wait(late, timeout=STEP_SECONDS * 0.05)
