"""The engine over HTTP: `from flowfabric.server import Server, Settings`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowfabric.server.server import Server
    from flowfabric.server.settings import Settings, load_settings

__all__ = ["Server", "Settings", "load_settings"]


def __getattr__(name: str) -> Any:
    """Load a public name when it is asked for: most commands of `ff` need the settings, and not the server."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from flowfabric.server import server, settings  # noqa: PLC0415

    return getattr(server if name == "Server" else settings, name)
