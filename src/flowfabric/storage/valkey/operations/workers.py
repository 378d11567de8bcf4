"""The workers that are known, and the leases of those that are dead."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import astuple

from flowfabric.model.checks import worker_capabilities
from flowfabric.model.operations.worker import (
    HeartbeatWorker,
    Marked,
    MarkWorkerDead,
    NotRegistered,
    Refreshed,
    Registered,
    RegisterWorker,
)
from flowfabric.storage.valkey.operations.calls import Packed, Reply, operation

_LANES: Final = RegisterWorker.__struct_fields__.index("lanes")
_CAPABILITIES: Final = RegisterWorker.__struct_fields__.index("capabilities")
_KINDS: Final = RegisterWorker.__struct_fields__.index("kinds")


def _pack(command: RegisterWorker) -> Packed:
    """Send the lists in the form in which they are stored."""
    fields: list[Any] = list(astuple(command))
    fields[_LANES] = sorted(set(command.lanes))
    fields[_CAPABILITIES] = worker_capabilities(command.capabilities)
    fields[_KINDS] = sorted(set(command.kinds or ()))
    return fields, ()


@operation(RegisterWorker, "ff_register_worker", pack=_pack)
def _registered(_: RegisterWorker, reply: Reply) -> Registered | Refreshed:
    if reply.text("outcome") == "registered":
        return Registered()
    return Refreshed(reply.integer("next_expiry"))


@operation(HeartbeatWorker, "ff_heartbeat_worker")
def _heard(_: HeartbeatWorker, reply: Reply) -> Refreshed | NotRegistered:
    if reply.text("outcome") == "refreshed":
        return Refreshed(reply.integer("next_expiry"))
    return NotRegistered()


@operation(MarkWorkerDead, "ff_mark_worker_dead")
def _marked(_: MarkWorkerDead, reply: Reply) -> Marked | NotRegistered:
    return Marked() if reply.text("outcome") == "marked" else NotRegistered()
