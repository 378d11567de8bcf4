"""What happens when a database is opened: schema, partition counts, and a session to write with."""

from __future__ import annotations

from flowfabric.model.errors import PartitionMismatch
from flowfabric.model.ids import Partitions
from flowfabric.storage.sql.requests import Ask, Plan
from flowfabric.storage.sqlite.connection import Synchronous, connect, migrate, translated
from flowfabric.storage.sqlite.session import Session


def prepare(path: str, synchronous: Synchronous, partitions: Partitions) -> Session:
    """Open a database for writing and bring it up to date."""
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


def _check_partitions(partitions: Partitions) -> Plan[None]:
    """Record the counts at first boot; refuse others later, because ids carry their partition for ever."""
    for field, configured in (
        ("num_flow_partitions", partitions.flow),
        ("num_budget_partitions", partitions.budget),
        ("num_quota_partitions", partitions.quota),
    ):
        yield Ask("put meta", (field, str(configured)))
        stored = (yield Ask("get meta", (field,)))[0][0]
        if stored != str(configured):
            raise PartitionMismatch(
                f"{field} is {stored} in this database and {configured} in the settings; partition counts are fixed",
                field=field,
                details=(stored, str(configured)),
            )
