"""Read the schema version of a SQLite file without changing it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from flowfabric.storage.resolve import sqlite_parts
from flowfabric.storage.sqlite.connection import connect, migrations


def sqlite_file(url: str) -> Path:
    """Return the path of the file that a store URL names."""
    return Path(sqlite_parts(url)[0]).absolute()


def sqlite_format(url: str) -> tuple[int, int]:
    """Return the schema version of a file, 0 if it is missing or empty, and the newest version."""
    path = sqlite_file(url)
    newest = migrations()[-1][0]
    if not path.exists():
        return 0, newest
    with closing(connect(str(path), read_only=True)) as db:
        return int(db.execute("pragma user_version").fetchone()[0]), newest
