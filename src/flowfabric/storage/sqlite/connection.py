"""Connect to a database file, migrate its schema, and translate errors of SQLite."""

from __future__ import annotations

import os
import random
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from flowfabric.model.errors import (
    Corruption,
    FlowFabricError,
    InvalidInput,
    SchemaTooNew,
    StoreBusy,
    StoreFull,
    StoreUnusable,
)

APPLICATION_ID: Final = 0x46464142  # "FFAB": tells our files from other SQLite files
MEMORY: Final = ":memory:"
CHECKPOINT_PAGES: Final = 4_000
"""Pages of the write-ahead log before a checkpoint: a page that changes often is then written back once."""
BUSY_SECONDS: Final = 10.0
"""How long to wait for other processes before raising `StoreBusy`."""
T = TypeVar("T")
Synchronous = Literal["OFF", "NORMAL", "FULL", "EXTRA"]
_MIGRATION: Final = re.compile(r"(\d{4})_\w+\.sql")


def connect(path: str, *, synchronous: Synchronous = "NORMAL", read_only: bool = False) -> sqlite3.Connection:
    """Open a connection with the settings of a store. It does not wait for locks: see `patiently`."""
    if synchronous not in {"OFF", "NORMAL", "FULL", "EXTRA"}:
        raise InvalidInput("one of OFF, NORMAL, FULL, EXTRA", field="synchronous")
    if not read_only and path != MEMORY:
        _create_private(path)
    name, uri = (_read_only_uri(path), True) if read_only and is_read_only(path) else (path, False)
    with translated(path):
        db = sqlite3.connect(
            name, isolation_level=None, check_same_thread=False, timeout=0, cached_statements=256, uri=uri
        )
        try:
            if read_only:
                db.execute("pragma query_only = on")
            elif path != MEMORY:
                # The first switch needs the file alone, and processes that start together all want it.
                patiently(path, lambda: db.execute("pragma journal_mode = wal"))
            db.execute(f"pragma synchronous = {synchronous}")
            db.execute("pragma temp_store = memory")
            db.execute("pragma cache_size = -16000")
            db.execute(f"pragma wal_autocheckpoint = {CHECKPOINT_PAGES}")
        except BaseException:
            db.close()
            raise
        return db


def is_read_only(path: str) -> bool:
    """Return True if the database exists and this process may read it but not change it."""
    file = Path(path)
    return (
        path != MEMORY
        and file.is_file()
        and _may(file, os.R_OK)
        and not (_may(file, os.W_OK) and _may(file.parent, os.W_OK))
    )


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _read_only_uri(path: str) -> str:
    """Return the URI of a read-only database. SQLite reads an existing log, but never creates one."""
    log, index = Path(f"{path}-wal"), Path(f"{path}-shm")
    uri = f"{Path(path).absolute().as_uri()}?mode=ro"
    if index.exists():  # somebody who may write has it open
        return uri
    if log.exists() and log.stat().st_size:
        raise StoreUnusable(
            f"{path} is read-only, and its last writer left a log behind; open it once where it may be written"
        )
    return f"{uri}&immutable=1"  # SQLite would make files beside it otherwise


def _create_private(path: str) -> None:
    """Create the file, readable by its owner only; SQLite gives the files beside it the same mode."""
    with suppress(OSError):  # it exists, or SQLite says what is wrong with the path
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def patiently(path: str, work: Callable[[], T]) -> T:
    """Retry while another process holds the lock, at short random intervals: those of SQLite grow to 0.1 s."""
    give_up = time.monotonic() + BUSY_SECONDS
    pause = 0.0002
    while True:
        try:
            return work()
        except sqlite3.Error as error:
            fault = translate(error, path)
            if not isinstance(fault, StoreBusy) or time.monotonic() > give_up:
                raise fault from error
        time.sleep(pause * (0.5 + random.random()))  # noqa: S311 - spreads processes, hides nothing
        pause = min(pause * 1.5, 0.003)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise errors of SQLite as errors of FlowFabric."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path) from error


def translate(error: sqlite3.Error, path: str) -> FlowFabricError:
    """Return the error of FlowFabric for an error of SQLite, with what to do about it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return StoreBusy(f"another process holds {path}; try again")
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"no room is left for {path}; free some and try again")
    if code in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}:
        return StoreUnusable(
            f"{path} is read-only: it can be looked at, but not changed; give this user the right to write file and "
            "folder"
        )
    if (
        code == sqlite3.SQLITE_CANTOPEN
        and Path(path).parent.is_dir()
        and not _may(Path(path).parent, os.W_OK)
    ):
        return StoreUnusable(f"{path} cannot be made: its folder is read-only for this user")
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreUnusable(f"{path} cannot be opened; does its folder exist, and may this user use it?")
    if code == sqlite3.SQLITE_NOTADB:
        return StoreUnusable(f"{path} is not a SQLite database; choose another path")
    if code == sqlite3.SQLITE_CORRUPT:
        return Corruption(f"{path} is damaged ({error}); restore it from a backup")
    return StoreUnusable(f"{path}: {error}")


def migrations() -> list[tuple[int, str]]:
    """Return every migration with its number, in order."""
    folder = resources.files("flowfabric.storage.sqlite") / "migrations"
    found = []
    for entry in folder.iterdir():
        match = _MIGRATION.fullmatch(entry.name)
        if match:
            found.append((int(match[1]), entry.read_text(encoding="utf-8")))
    return sorted(found)


def migrate(db: sqlite3.Connection, path: str) -> int:
    """Run the missing migrations and return the version of the schema. The caller holds the write lock."""
    known = migrations()
    newest = known[-1][0]
    version: int = db.execute("pragma user_version").fetchone()[0]
    application: int = db.execute("pragma application_id").fetchone()[0]
    if application != APPLICATION_ID:
        if application or db.execute("select 1 from sqlite_master limit 1").fetchone():
            raise StoreUnusable(f"{path} holds other data than FlowFabric's; choose another path")
        db.execute(f"pragma application_id = {APPLICATION_ID}")
    if version > newest:
        raise SchemaTooNew(f"{path} has schema {version}; this FlowFabric knows {newest}: upgrade it first")
    db.create_function("packed", 2, _packed, deterministic=True)
    for number, script in known:
        if number > version:
            for statement in _statements(script):
                db.execute(statement)
            db.execute(f"pragma user_version = {number}")
    return newest


def check_schema(db: sqlite3.Connection, path: str) -> None:
    """Raise an error unless the schema of a read-only database is the newest."""
    newest = migrations()[-1][0]
    version: int = db.execute("pragma user_version").fetchone()[0]
    application: int = db.execute("pragma application_id").fetchone()[0]
    if application != APPLICATION_ID:
        raise StoreUnusable(f"{path} holds other data than FlowFabric's; choose another path")
    if version > newest:
        raise SchemaTooNew(f"{path} has schema {version}; this FlowFabric knows {newest}: upgrade it first")
    if version < newest:
        raise StoreUnusable(
            f"{path} is read-only and of an older format; run `ff migrate` where it may be written"
        )


def _packed(record: bytes, place: int) -> str | int:
    """Return a field of a packed record, for migrations; the length of a field that holds bytes."""
    value: Any = msgspec.msgpack.decode(record)[place]
    return len(value) if isinstance(value, bytes) else value


def _statements(script: str) -> Iterator[str]:
    """Split a script into statements, because `executescript` would commit the open transaction."""
    statement = ""
    for line in script.splitlines():
        statement += line.split("--")[0] + "\n"
        if sqlite3.complete_statement(statement):
            if statement.strip():
                yield statement
            statement = ""
