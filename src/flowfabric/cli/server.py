"""`ff server`: serve a store over HTTP."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from flowfabric.cli.screen import Screen
from flowfabric.cli.serving import as_typed
from flowfabric.server.settings import BadSetting, Settings, load_settings
from flowfabric.storage import opens
from flowfabric.storage.extras import install_command
from flowfabric.storage.resolve import family, without_password


def add(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser("server", help="serve a store over HTTP")
    parser.add_argument("--store", help="URL or path of the store (default: FF_STORE, else a file of yours)")
    parser.add_argument("--listen", metavar="HOST:PORT", help="where to listen (default: 127.0.0.1:9090)")
    parser.add_argument("--config", metavar="FILE", default="", help="settings in TOML (default: FF_CONFIG)")
    parser.add_argument("--processes", metavar="N", help="processes that share the port (default: 1)")
    parser.add_argument("--check", action="store_true", help="check the settings, report, and do not serve")
    parser.add_argument("--json", action="store_true", help="with --check: print JSON instead of text")
    parser.set_defaults(run=serve)


def serve(given: argparse.Namespace) -> int:
    """Run the server and return the exit code."""
    named = {"FF_STORE": given.store, "FF_LISTEN_ADDR": given.listen, "FF_PROCESSES": given.processes}
    flags = {name: value for name, value in named.items() if value is not None}
    try:
        settings = load_settings(flags, config=given.config)
    except BadSetting as error:
        problem = as_typed(error, flags)
        print(f"ff: ERROR failed to start server: {problem} (exit_code=1)", file=sys.stderr)
        return 1
    if given.check:
        return report(settings, as_json=given.json)
    try:
        from flowfabric.server.run import run  # noqa: PLC0415 - what serves loads only to serve

        return run(settings)
    except ModuleNotFoundError as error:
        print(f"ff: {error.name} is missing: {install_command('server')}", file=sys.stderr)
        return 1


def report(settings: Settings, *, as_json: bool = False) -> int:
    """Show what the settings come to."""
    shown = {
        "store": without_password(settings.store),
        "listen": settings.listen_text,
        "token": "set" if settings.api_token else "none: everybody who reaches the address may do everything",
        "waitpoint secret": "given" if settings.hmac_secret else "kept in the store",
        "lanes": ", ".join(settings.lanes),
        "partitions": f"{settings.partitions.flow} flow, {settings.partitions.budget} budget, "
        f"{settings.partitions.quota} quota",
        "processes": str(settings.processes),
    }
    good = opens(settings.store)
    if as_json:
        named = {name.replace(" ", "_"): value for name, value in shown.items()}
        Screen().json({**named, "warnings": settings.warnings, "good": good})
    else:
        for name, value in shown.items():
            print(f"{name + ':':<18}{value}")
        for warning in settings.warnings:
            print(f"warning: {warning}")
    if not good:
        print(f"ff: this version has no store for {family(settings.store)}", file=sys.stderr)
        return 1
    if not as_json:
        print("settings are good")
    return 0
