"""Delete what has expired and is never read again."""

from __future__ import annotations

from flowfabric.model.limits import FEED_AFTER_PURGE_MS
from flowfabric.storage.sql.requests import Ask, Plan, Transaction, Transactions, ask_once


def collect(now: int, limit: int) -> Transactions[int]:
    """Delete expired idempotency records, workers and history of purged executions; return how many rows went."""
    memos = yield ask_once("collect memos", now, limit)
    workers = yield ask_once("collect workers", now, limit)
    yield ask_once("collect serving", now, limit)
    past: int = yield Transaction(_collect_past(now - FEED_AFTER_PURGE_MS, limit), writes=True)
    return len(memos) + len(workers) + past


def _collect_past(before: int, limit: int) -> Plan[int]:
    """Delete history that was kept for the feed alone, and note from where on the feed is complete."""
    gone = yield Ask("collect past", (before, limit))
    if gone:
        floor = max(gone)[0]
        yield Ask("raise floor", (floor, floor))
    return len(gone)
