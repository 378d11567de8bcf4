"""Suspensions, waitpoints and signals."""

from __future__ import annotations

from typing import Final

from msgspec import msgpack

from flowfabric.model.operations.signal import ApproveSignal, DeliverSignal, SignalAccepted, SignalDuplicate
from flowfabric.model.operations.suspend import Answer, SatisfiedAtOnce, Suspend, Suspended
from flowfabric.model.operations.suspend_resume import Resumed, ResumeExecution
from flowfabric.model.operations.suspend_waitpoint import (
    CloseWaitpoint,
    CreateWaitpoint,
    OpenWaitpoint,
    WaitpointClosed,
    WaitpointCreated,
)
from flowfabric.model.state import Public
from flowfabric.storage.valkey.operations.calls import Reply, operation

_ANSWER: Final = msgpack.Decoder(Answer)


@operation(Suspend, "ff_suspend_execution")
def _suspended(_: Suspend, reply: Reply) -> Suspended | SatisfiedAtOnce:
    return _ANSWER.decode(reply.bytes("answer")).outcome()


@operation(CreateWaitpoint, "ff_create_waitpoint")
def _created(command: CreateWaitpoint, reply: Reply) -> WaitpointCreated:
    return WaitpointCreated(OpenWaitpoint(command.waitpoint_id, command.waitpoint_key, reply.text("token")))


@operation(CloseWaitpoint, "ff_close_waitpoint")
def _closed(_: CloseWaitpoint, reply: Reply) -> WaitpointClosed:
    return WaitpointClosed(already=reply.integer("already") == 1)


@operation(DeliverSignal, "ff_deliver_signal", blobs=("payload",))
def _delivered(_: DeliverSignal, reply: Reply) -> SignalAccepted | SignalDuplicate:
    return _accepted(reply)


@operation(ApproveSignal, "ff_approve_signal", blobs=("payload",))
def _approved(_: ApproveSignal, reply: Reply) -> SignalAccepted | SignalDuplicate:
    return _accepted(reply)


def _accepted(reply: Reply) -> SignalAccepted | SignalDuplicate:
    if reply.text("outcome") == "duplicate":
        return SignalDuplicate(reply.text("existing_signal_id"))
    return SignalAccepted(reply.text("signal_id"), reply.text("effect"))


@operation(ResumeExecution, "ff_resume_execution")
def _resumed(_: ResumeExecution, reply: Reply) -> Resumed:
    return Resumed(Public(reply.text("public_state")))
