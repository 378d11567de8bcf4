"""Open a database: migrate its schema and check its partition counts."""

from __future__ import annotations

from flowfabric.model.ids import Partitions
from flowfabric.storage.sql.partitions import compare_partitions, record_partitions
from flowfabric.storage.sqlite.connection import (
    Synchronous,
    check_schema,
    connect,
    is_read_only,
    migrate,
    translated,
)
from flowfabric.storage.sqlite.session import Session


def prepare(path: str, synchronous: Synchronous, partitions: Partitions) -> Session:
    """Open a database for writing and migrate it; open a read-only file for reading alone."""
    if is_read_only(path):
        return _prepare_to_read(path, synchronous, partitions)
    db = connect(path, synchronous=synchronous)
    session = Session(db, path)
    try:
        with translated(path), session.writing():
            migrate(db, path)
            session.run(record_partitions(partitions))
    except BaseException:
        session.close()
        raise
    return session


def _prepare_to_read(path: str, synchronous: Synchronous, partitions: Partitions) -> Session:
    db = connect(path, synchronous=synchronous, read_only=True)
    session = Session(db, path)
    try:
        with translated(path), session.reading():
            check_schema(db, path)
            session.run(compare_partitions(partitions))
    except BaseException:
        session.close()
        raise
    return session
