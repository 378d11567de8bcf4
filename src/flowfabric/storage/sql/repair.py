"""Compare index columns, counts and queues with the records, and correct them."""

from __future__ import annotations

from typing import Final

from flowfabric.model.indexes import placement
from flowfabric.storage.base import RepairReport
from flowfabric.storage.sql.codec import decode
from flowfabric.storage.sql.requests import Ask, Plan, Row, Transaction, Transactions, Write
from flowfabric.storage.sql.save import index_columns

PAGE: Final = 500
"""How many executions one transaction compares."""


def repair(*, fix: bool) -> Transactions[RepairReport]:
    """Compare everything, page by page; correct what is wrong if `fix` is True."""
    wrong: list[str] = []
    checked = after = 0
    while True:
        page, found = yield Transaction(_repair_page(after, fix), writes=fix)
        checked += len(page)
        wrong += found
        if len(page) < PAGE:
            break
        after = page[-1][0]
    if fix or not wrong:  # index columns that are wrong make every count wrong
        wrong += yield Transaction(_repair_counts(fix), writes=fix)
    return RepairReport(checked, tuple(wrong), fix and bool(wrong))


def _repair_page(after: int, fix: bool) -> Plan[tuple[list[Row], list[str]]]:
    """Compare the index columns of some executions; return their rows and what is wrong."""
    wrong: list[str] = []
    updates: list[Row] = []
    page = yield Ask("indexed executions", (after, PAGE))
    for execution_key, execution_id, *columns, record in page:
        expected = index_columns(placement(decode("execution", record)))
        if tuple(columns) != expected:
            wrong.append(f"{execution_id}: indexed as {tuple(columns)}, its record implies {expected}")
            updates.append((*expected, execution_key))
    if fix and updates:
        yield Write("update indexes", updates)
    return page, wrong


def _repair_counts(fix: bool) -> Plan[list[str]]:
    """Recount lanes, namespaces and queues from the index columns, which are right by now."""
    wrong: list[str] = []
    stored = yield Ask("all tallies", ())
    tallies = yield Ask("count tallies", ())
    if stored != tallies:
        wrong.append(f"the tallies are not what the records imply: {tallies}")
        if fix:
            yield Write("delete tallies", [()])
            yield Write("add tally", tallies)
    stored = yield Ask("all totals", ())
    totals = yield Ask("count totals", ())
    if (fix or not wrong) and stored != totals:
        wrong.append(f"the totals are not what the tallies imply: {totals}")
        if fix:
            yield Write("delete totals", [()])
            yield Write("add total", totals)
    lengths = yield Ask("all routes", ())
    waiting = dict((yield Ask("count waiting", ())))
    for route_id, counted in lengths:
        implied = waiting.get(route_id, 0)
        if counted != implied:
            wrong.append(f"queue {route_id} counts {counted}, the records imply {implied}")
            if fix:
                yield Write("set waiting", [(implied, route_id)])
    return wrong
