"""What operators do to executions and lanes, and the small changes that need no lease."""

from __future__ import annotations

from typing import Any

from flowfabric.model.command import Command
from flowfabric.model.operations.lane import OpenLane, PauseLane, UnpauseLane
from flowfabric.model.operations.lease import AlreadySatisfied, Revoked, RevokeLease
from flowfabric.model.operations.operate import (
    Block,
    Blocked,
    ChangePriority,
    Pause,
    Paused,
    PriorityChanged,
    Replay,
    Replayed,
    SetTags,
    TagsSet,
    Unblock,
    Unpause,
    Unpaused,
)
from flowfabric.model.state import Public
from flowfabric.storage.valkey.operations.calls import Reply, operation


@operation(ChangePriority, "ff_change_priority")
def _priority_changed(_: ChangePriority, reply: Reply) -> PriorityChanged:
    return PriorityChanged(reply.integer("old"), reply.integer("new"))


@operation(SetTags, "ff_set_execution_tags")
def _tags_set(command: SetTags, _: Reply) -> TagsSet:
    return TagsSet(len(command.tags))


@operation(Replay, "ff_replay_execution")
def _replayed(_: Replay, reply: Reply) -> Replayed:
    return Replayed(Public(reply.text("public_state")))


@operation(RevokeLease, "ff_revoke_lease")
def _revoked(_: RevokeLease, reply: Reply) -> Revoked | AlreadySatisfied:
    if reply.text("outcome") == "revoked":
        return Revoked(reply.text("lease_id"), reply.integer("lease_epoch"))
    return AlreadySatisfied(reply.text("reason"))


@operation(Pause, "ff_pause_execution")
@operation(PauseLane, "ff_pause_lane")
def _paused(_: Command[Any], __: Reply) -> Paused:
    return Paused()


@operation(Unpause, "ff_unpause_execution")
@operation(UnpauseLane, "ff_unpause_lane")
def _unpaused(_: Command[Any], __: Reply) -> Unpaused:
    return Unpaused()


@operation(OpenLane, "ff_open_lane")
def _opened(_: OpenLane, reply: Reply) -> Paused | Unpaused:
    return Paused() if reply.text("outcome") == "paused" else Unpaused()


@operation(Block, "ff_block_execution_for_admission")
@operation(Unblock, "ff_unblock_execution")
def _blocked(_: Command[Any], reply: Reply) -> Blocked:
    return Blocked(Public(reply.text("public_state")))
