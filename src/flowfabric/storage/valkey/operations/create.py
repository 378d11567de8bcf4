"""Creating executions."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from msgspec.structs import astuple

from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.create import Created, CreateExecution, Duplicate
from flowfabric.model.policy import parse_policy
from flowfabric.model.state import Public
from flowfabric.storage.valkey.operations.calls import Packed, Reply, operation

_FIELDS: Final = CreateExecution.__struct_fields__
_INPUT: Final = _FIELDS.index("input_payload")
_POLICY: Final = _FIELDS.index("policy")


class Reserved(NamedTuple):
    """The key stands for an id of another partition of the cluster, whose execution may not exist yet."""

    execution_id: str


def _pack(command: CreateExecution) -> Packed | None:
    """Parse the policy here; what will be refused, unless it is a duplicate, goes the general way."""
    if command.flow_id or command.budget_ids or command.quota_ids:
        return None
    fields: list[Any] = list(astuple(command))
    fields[_INPUT] = True
    fields[_POLICY] = ()
    if command.policy:
        try:
            policy = fields[_POLICY] = parse_policy(command.policy)
        except FlowFabricError:
            return None
        if policy.budget_ids:
            return None
    return fields, (command.input_payload, command.policy)


@operation(CreateExecution, "ff_create_execution", pack=_pack)
def _created(_: CreateExecution, reply: Reply) -> Created | Duplicate | Reserved:
    outcome, execution_id, state = (
        reply.text("outcome"),
        reply.text("execution_id"),
        reply.text("public_state"),
    )
    if outcome == "created":
        return Created(execution_id, Public(state))
    if outcome == "reserved":
        return Reserved(execution_id)
    return Duplicate(execution_id, Public(state) if state else "")
