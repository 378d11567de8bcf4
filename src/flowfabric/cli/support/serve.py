"""Start the HTTP server for `ff server` and `ff dev`: the one place where the command line uses the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from msgspec.structs import replace

from flowfabric.cli.support.exit_codes import CommandError, ExitCode
from flowfabric.server.settings import Settings, load_settings
from flowfabric.storage.base import Upkeep
from flowfabric.storage.extras import install_command
from flowfabric.storage.resolve import MEMORY
from flowfabric.variables import BadSetting

__all__ = ["Settings", "read_settings", "run_server", "serve_store"]

OPTIONS: Final = {"FF_STORE": "--store", "FF_LISTEN_ADDR": "--listen", "FF_PROCESSES": "--processes"}
"""The options that set a variable."""


def read_settings(flags: Mapping[str, str], config: str = "") -> Settings:
    """Return the settings of a server; an error names the option that was typed, not its variable."""
    try:
        return load_settings(flags, config=config)
    except BadSetting as error:
        text = str(error)
        for name in flags:
            text = text.replace(name, OPTIONS[name])
        raise BadSetting(text) from error


def run_server(settings: Settings) -> int:
    """Serve until a signal ends it, and return the exit code."""
    try:
        from flowfabric.server.run import run  # noqa: PLC0415 - imports the HTTP stack

        return run(settings)
    except ModuleNotFoundError as error:
        raise _missing(error) from error


@asynccontextmanager
async def serve_store(store: Upkeep, url: str, listen: str) -> AsyncIterator[str]:
    """Serve an open store over HTTP, and return the address; `listen` takes precedence over FF_LISTEN_ADDR."""
    try:
        from flowfabric.server.http.listener import bind, problem, where  # noqa: PLC0415 - imports the HTTP stack
        from flowfabric.server.server import Server  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    # The store is open already. Settings for a store in memory need no URL, no file and no secret.
    flags = {"FF_STORE": MEMORY} | ({"FF_LISTEN_ADDR": listen} if listen else {})
    try:
        settings = replace(read_settings(flags), store=url)
    except BadSetting as error:
        raise CommandError(str(error), ExitCode.USAGE) from error
    try:
        sockets = bind(settings)
    except OSError as error:
        raise CommandError(problem(settings, error)) from error
    server = await Server.start(settings, store=store)
    serving = asyncio.create_task(server.serve(sockets))
    try:
        yield f"http://{where(sockets[0])}"
    finally:
        server.stop()
        await serving
        await server.shutdown()


def _missing(error: ModuleNotFoundError) -> CommandError:
    return CommandError(f"{error.name} is missing: {install_command('server')}")
