"""`ff server`: serve a store over HTTP."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from flowfabric.cli.support.output import Output
from flowfabric.cli.support.serve import Settings, read_settings, run_server
from flowfabric.storage import opens
from flowfabric.storage.resolve import family, without_password
from flowfabric.variables import BadSetting


def add(commands: Any) -> None:
    """Add the parser of `ff server`."""
    about = "serve a store over HTTP"
    parser = commands.add_parser("server", help=about, description=about)
    parser.add_argument(
        "--store",
        help="URL or path of the store (default: FF_STORE, else a file in your data folder)",
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="where to listen (default: 127.0.0.1:9090)")
    parser.add_argument("--config", metavar="FILE", default="", help="settings in TOML (default: FF_CONFIG)")
    parser.add_argument("--processes", metavar="N", help="processes that share the port (default: 1)")
    parser.add_argument("--check", action="store_true", help="check the settings, report, and do not serve")
    parser.add_argument("--json", action="store_true", help="with --check: print JSON instead of text")
    parser.set_defaults(run=serve)


def serve(given: argparse.Namespace) -> int:
    """Run the server, or with `--check` report its settings, and return the exit code."""
    options = {"FF_STORE": given.store, "FF_LISTEN_ADDR": given.listen, "FF_PROCESSES": given.processes}
    flags = {name: value for name, value in options.items() if value is not None}
    try:
        settings = read_settings(flags, given.config)
    except BadSetting as error:
        print(f"ff: ERROR failed to start server: {error} (exit_code=1)", file=sys.stderr)
        return 1
    return _report(settings, as_json=given.json) if given.check else run_server(settings)


def _report(settings: Settings, *, as_json: bool) -> int:
    """Print the settings in effect."""
    counts = settings.partitions
    shown = {
        "store": without_password(settings.store),
        "listen": settings.listen_text,
        "token": "set" if settings.api_token else "none: everybody who reaches the address may do everything",
        "waitpoint secret": "given" if settings.hmac_secret else "kept in the store",
        "lanes": ", ".join(settings.lanes),
        "partitions": f"{counts.flow} flow, {counts.budget} budget, {counts.quota} quota",
        "processes": str(settings.processes),
    }
    is_good = opens(settings.store)
    if as_json:
        fields = {name.replace(" ", "_"): value for name, value in shown.items()}
        Output().json({**fields, "warnings": settings.warnings, "good": is_good})
    else:
        for name, value in shown.items():
            print(f"{name + ':':<18}{value}")
        for warning in settings.warnings:
            print(f"warning: {warning}")
    if not is_good:
        print(f"ff: this version has no store for {family(settings.store)}", file=sys.stderr)
        return 1
    if not as_json:
        print("settings are good")
    return 0
