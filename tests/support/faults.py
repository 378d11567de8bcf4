"""Making statements of the SQLite store fail."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from flowfabric.storage.sqlite import SqliteStore


def sqlite_fault(code: int) -> sqlite3.OperationalError:
    """An error as SQLite raises it."""
    error = sqlite3.OperationalError("simulated")
    error.sqlite_errorcode = code
    return error


class Trap:
    """Fails at the n-th statement, or from there on; counts them all."""

    def __init__(self, store: SqliteStore, fault: Callable[[], Exception]) -> None:
        self._session = store._writer.session
        self._fault = fault
        self.names: list[str] = []
        self.sprung = False

    def arm(self, place: int, *, once: bool = True) -> None:
        """Fail at a place, counted from 0."""
        self.names = []
        self.sprung = False

        def before(name: str) -> None:
            if name == "rollback":  # the end of a read, which a dump is
                return
            here = len(self.names)
            self.names.append(name)
            if here == place or (here > place and not once):
                self.sprung = True
                raise self._fault()

        self._session.before = before

    def disarm(self) -> None:
        self._session.before = None
