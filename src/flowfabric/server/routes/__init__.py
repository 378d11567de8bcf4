"""Every route of the server, by room. Importing a room registers its routes."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules


def load_routes() -> None:
    """Import every room of this package."""
    for room in iter_modules(__path__):
        import_module(f"{__name__}.{room.name}")
