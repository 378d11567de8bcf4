"""A server inside a command: what `ff dev` serves its store with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from msgspec.structs import replace

from flowfabric.cli.exits import Exit, Refused
from flowfabric.server.settings import BadSetting, load_settings
from flowfabric.storage.base import Upkeep
from flowfabric.storage.extras import install_command
from flowfabric.storage.resolve import MEMORY

OPTIONS: Final = {"FF_STORE": "--store", "FF_LISTEN_ADDR": "--listen", "FF_PROCESSES": "--processes"}


def as_typed(error: BadSetting, flags: Mapping[str, str]) -> str:
    """Name the option instead of the variable that it sets, where the option was what was typed."""
    text = str(error)
    for name in flags:
        text = text.replace(name, OPTIONS[name])
    return text


@asynccontextmanager
async def served(store: Upkeep, url: str, listen: str) -> AsyncIterator[str]:
    """Serve an open store over HTTP, and return the address; `listen` wins over FF_LISTEN_ADDR."""
    try:
        from flowfabric.server.http.listener import bind, problem, where  # noqa: PLC0415 - loads the HTTP machinery
        from flowfabric.server.server import Server  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise Refused(f"{error.name} is missing: {install_command('server')}") from error
    # The store is open already, with its secret: a store in memory is what asks for nothing.
    flags = {"FF_STORE": MEMORY} | ({"FF_LISTEN_ADDR": listen} if listen else {})
    try:
        settings = replace(load_settings(flags), store=url)
    except BadSetting as error:
        raise Refused(as_typed(error, flags), Exit.USAGE) from error
    try:
        sockets = bind(settings)
    except OSError as error:
        raise Refused(problem(settings, error)) from error
    server = await Server.start(settings, store=store)
    serving = asyncio.create_task(server.serve(sockets))
    try:
        yield f"http://{where(sockets[0])}"
    finally:
        server.stop()
        await serving
        await server.shutdown()
