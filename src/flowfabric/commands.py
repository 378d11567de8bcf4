"""The commands and questions that programs use most when they call a store without an app.

::

    from flowfabric import open_store
    from flowfabric.commands import CreateExecution, Describe

    store = await open_store("work.db")
    await store.apply(CreateExecution(execution_id=execution_id, execution_kind="greet"))
    found = await store.read(Describe(execution_id=execution_id))

All commands are in `flowfabric.model.operations`, each with its answer in the same module.
"""

from flowfabric.engine import claim_when_ready, tail_when_ready, wait_until_ended
from flowfabric.model.command import Fence
from flowfabric.model.ids import spread
from flowfabric.model.operations.access_secret import RotateSecret, SeedSecret
from flowfabric.model.operations.claim import Claim
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.finish import Cancel, Complete, Delay, Fail
from flowfabric.model.operations.kind import DeleteKind, GetKind, ListKinds, PublishKind
from flowfabric.model.operations.lane import PauseLane, UnpauseLane
from flowfabric.model.operations.lease import Release, Renew, RevokeLease, UpdateProgress
from flowfabric.model.operations.operate import ChangePriority, Pause, Replay, SetTags, Unpause
from flowfabric.model.operations.read import Describe, GetExecution, GetResult, ReadHistory
from flowfabric.model.operations.signal import ApproveSignal, DeliverSignal, ReadInbox
from flowfabric.model.operations.step import GetStep, PutStep
from flowfabric.model.operations.stream import AppendFrames, FrameInput, ReadStream, TailStream
from flowfabric.model.operations.suspend import Binding, Suspend
from flowfabric.model.operations.suspend_resume import GetSuspension, ResumeExecution
from flowfabric.model.operations.suspend_waitpoint import (
    CloseWaitpoint,
    CreateWaitpoint,
    ListWaitpoints,
    ReadToken,
)
from flowfabric.model.operations.worker import HeartbeatWorker, MarkWorkerDead, RegisterWorker

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
