"""Keep the partition counts of a database fixed, because ids carry their partition for ever."""

from __future__ import annotations

from flowfabric.model.errors import PartitionMismatch
from flowfabric.model.ids import Partitions
from flowfabric.storage.sql.requests import Ask, Plan


def record_partitions(partitions: Partitions) -> Plan[None]:
    """Store the counts in a new database; raise `PartitionMismatch` if it has others."""
    for field, configured in _counts(partitions):
        yield Ask("put meta", (field, str(configured)))
    yield from compare_partitions(partitions)


def compare_partitions(partitions: Partitions) -> Plan[None]:
    """Raise `PartitionMismatch` if the database has other counts."""
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
