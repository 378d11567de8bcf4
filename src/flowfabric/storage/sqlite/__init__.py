"""The embedded store on SQLite."""

from flowfabric.storage.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
