"""What happens when a database is opened: schema, partition counts, and a session to write with."""

from __future__ import annotations

from flowfabric.model.errors import PartitionMismatch
from flowfabric.model.ids import Partitions
from flowfabric.storage.sql.requests import Ask, Plan
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
    """Open a database for writing and bring it up to date; one that is read-only is opened for reading alone."""
    if is_read_only(path):
        return _prepare_to_read(path, synchronous, partitions)
    db = connect(path, synchronous=synchronous)
    session = Session(db, path)
    try:
        with translated(path), session.writing():
            migrate(db, path)
            session.run(_check_partitions(partitions))
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
            session.run(_compare_partitions(partitions))
    except BaseException:
        session.close()
        raise
    return session


def _check_partitions(partitions: Partitions) -> Plan[None]:
    """Record the counts at first boot; refuse others later, because ids carry their partition for ever."""
    for field, configured in _counts(partitions):
        yield Ask("put meta", (field, str(configured)))
    yield from _compare_partitions(partitions)


def _compare_partitions(partitions: Partitions) -> Plan[None]:
    for field, configured in _counts(partitions):
        stored = (yield Ask("get meta", (field,)))[0][0]
        if stored != str(configured):
            raise PartitionMismatch(
                f"{field} is {stored} in this database and {configured} in the settings; partition counts are fixed",
                field=field,
                details=(stored, str(configured)),
            )


def _counts(partitions: Partitions) -> tuple[tuple[str, int], ...]:
    return (
        ("num_flow_partitions", partitions.flow),
        ("num_budget_partitions", partitions.budget),
        ("num_quota_partitions", partitions.quota),
    )
