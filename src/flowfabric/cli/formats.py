"""How old the data of a store is, without changing it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from flowfabric.storage.resolve import sqlite_parts
from flowfabric.storage.sqlite.connection import connect, migrations


def sqlite_file(url: str) -> Path:
    """Return the file that a URL or a path names."""
    return Path(sqlite_parts(url)[0]).absolute()


def sqlite_format(url: str) -> tuple[int, int]:
    """Return the version of a file's schema, and the newest that this FlowFabric knows; 0: there is none yet."""
    path = sqlite_file(url)
    newest = migrations()[-1][0]
    if not path.exists():
        return 0, newest
    with closing(connect(str(path), read_only=True)) as db:
        return int(db.execute("pragma user_version").fetchone()[0]), newest
