"""How the commands with a fast path are sent, and how their replies are read. Importing this package registers them."""

from flowfabric.storage.valkey.operations import claim, create, finish, lease, step, stream, timer
from flowfabric.storage.valkey.operations.calls import OPERATIONS, Call, call_of, fast_call, pack_fields

__all__ = [
    "OPERATIONS",
    "Call",
    "call_of",
    "claim",
    "create",
    "fast_call",
    "finish",
    "lease",
    "pack_fields",
    "step",
    "stream",
    "timer",
]
