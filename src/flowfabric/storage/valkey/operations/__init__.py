"""How each command is sent, and how its reply is read. Importing this package registers all of them."""

from flowfabric.storage.valkey.operations import (
    claim,
    create,
    grants,
    holder,
    operators,
    streams,
    timers,
    waiting,
    workers,
)
from flowfabric.storage.valkey.operations.calls import OPERATIONS, Call, call_of

__all__ = [
    "OPERATIONS",
    "Call",
    "call_of",
    "claim",
    "create",
    "grants",
    "holder",
    "operators",
    "streams",
    "timers",
    "waiting",
    "workers",
]
