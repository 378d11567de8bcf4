"""The commands and questions that programs use most when they call a store without an app.

::

    from flowfabric import open_store
    from flowfabric.commands import CreateExecution, Describe

    store = await open_store("work.db")
    await store.apply(CreateExecution(execution_id=execution_id, execution_kind="greet"))
    found = await store.read(Describe(execution_id=execution_id))

All commands are in `flowfabric.model.contracts`, each with its answer in the same module.
"""

from flowfabric.engine import claim_when_ready, tail_when_ready, wait_until_ended
from flowfabric.model.contracts.base import Fence
from flowfabric.model.contracts.create import (
    ChangePriority,
    CreateExecution,
    Pause,
    PauseLane,
    Replay,
    RevokeLease,
    SetTags,
    Unpause,
    UnpauseLane,
)
from flowfabric.model.contracts.kinds import DeleteKind, GetKind, ListKinds, PublishKind
from flowfabric.model.contracts.lease import (
    Cancel,
    Claim,
    Complete,
    Delay,
    Fail,
    Release,
    Renew,
    UpdateProgress,
)
from flowfabric.model.contracts.reads import (
    Describe,
    GetExecution,
    GetResult,
    GetStep,
    GetSuspension,
    ListWaitpoints,
    ReadHistory,
    ReadInbox,
    ReadStream,
    ReadToken,
    TailStream,
)
from flowfabric.model.contracts.streams import AppendFrames, FrameInput, PutStep
from flowfabric.model.contracts.upkeep import (
    HeartbeatWorker,
    MarkWorkerDead,
    RegisterWorker,
    RotateSecret,
    SeedSecret,
)
from flowfabric.model.contracts.waiting import (
    ApproveSignal,
    Binding,
    CloseWaitpoint,
    CreateWaitpoint,
    DeliverSignal,
    ResumeExecution,
    Suspend,
)
from flowfabric.model.ids import spread

__all__ = [
    "AppendFrames",
    "ApproveSignal",
    "Binding",
    "Cancel",
    "ChangePriority",
    "Claim",
    "CloseWaitpoint",
    "Complete",
    "CreateExecution",
    "CreateWaitpoint",
    "Delay",
    "DeleteKind",
    "DeliverSignal",
    "Describe",
    "Fail",
    "Fence",
    "FrameInput",
    "GetExecution",
    "GetKind",
    "GetResult",
    "GetStep",
    "GetSuspension",
    "HeartbeatWorker",
    "ListKinds",
    "ListWaitpoints",
    "MarkWorkerDead",
    "Pause",
    "PauseLane",
    "PublishKind",
    "PutStep",
    "ReadHistory",
    "ReadInbox",
    "ReadStream",
    "ReadToken",
    "RegisterWorker",
    "Release",
    "Renew",
    "Replay",
    "ResumeExecution",
    "RevokeLease",
    "RotateSecret",
    "SeedSecret",
    "SetTags",
    "Suspend",
    "TailStream",
    "Unpause",
    "UnpauseLane",
    "UpdateProgress",
    "claim_when_ready",
    "spread",
    "tail_when_ready",
    "wait_until_ended",
]
