"""What comes back: answers of the server, read into the typed answers of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from flowfabric.client.payloads import JSON, NOTHING, take
from flowfabric.client.tasks import SuspensionShape, read_claimed, read_tasks
from flowfabric.client.transport import Reply
from flowfabric.model.errors import Unreachable
from flowfabric.model.operations.claim import Claimed
from flowfabric.model.operations.create import Created, Duplicate
from flowfabric.model.operations.grant import ClaimedOne
from flowfabric.model.operations.operate import PriorityChanged
from flowfabric.model.operations.step import StepExisting, StepStored
from flowfabric.model.operations.stream import Appended
from flowfabric.model.operations.suspend import SatisfiedAtOnce, Suspended
from flowfabric.model.operations.suspend_waitpoint import OpenWaitpoint, WaitpointCreated
from flowfabric.model.operations.worker import Refreshed, Registered
from flowfabric.model.state import Public

Read = Callable[[Any, Reply], Any]
"""Reads the answer to a command."""


def decoded(reply: Reply, kind: Any = Any) -> Any:
    """Read a JSON body; one that does not fit means that somebody else answered, or a version that is too far off."""
    try:
        return msgspec.json.decode(reply.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unreachable("the answer is not of the expected shape; is it a FlowFabric server?") from error


def variants(*same: Any, **named: Any) -> Read:
    """Read `"Name"` or `{"Name": {…}}`: types under their own names, others under the server's."""
    known: Mapping[str, Any] = {kind.__name__: kind for kind in same} | named

    def read(_: Any, reply: Reply) -> Any:
        value = decoded(reply)
        name, content = _tagged(value)
        if name not in known:
            raise Unreachable(f"the answer {name or 'without a name'!r} is not known here")
        kind = known[name]
        if isinstance(kind, type):
            return _converted(content, kind)
        return kind(content)

    return read


def _tagged(value: Any) -> tuple[str, Any]:
    if isinstance(value, str):
        return value, {}
    if isinstance(value, dict) and len(value) == 1:
        ((name, content),) = value.items()
        return name, content
    return "", {}


def _converted(content: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(content, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Unreachable("the answer is not of the expected shape; is it a FlowFabric server?") from error


class _Submitted(msgspec.Struct, frozen=True):
    execution_id: str
    public_state: str | None
    duplicate: bool


def submitted(value: Any) -> Created | Duplicate:
    """Read one submission's answer."""
    told: _Submitted = _converted(value, _Submitted)
    if told.duplicate:
        state: Any = told.public_state
        return Duplicate(told.execution_id, Public(state) if state else "")
    return Created(told.execution_id, Public(told.public_state or ""))


def created(_: Any, reply: Reply) -> Created | Duplicate:
    """Read the answer to a submission."""
    return submitted(decoded(reply))


def claimed(command: Any, reply: Reply) -> Claimed:
    """Read the tasks that a claim brought."""
    try:
        return Claimed(read_tasks(reply.body, command.worker_id, command.worker_instance_id))
    except msgspec.DecodeError as error:
        raise Unreachable("the answer is not of the expected shape; is it a FlowFabric server?") from error


def claimed_one(command: Any, reply: Reply) -> ClaimedOne:
    """Read the task that a claim by name brought."""
    try:
        return read_claimed(reply.body, command.worker_id, command.worker_instance_id)
    except msgspec.DecodeError as error:
        raise Unreachable("the answer is not of the expected shape; is it a FlowFabric server?") from error


def reprioritised(_: Any, reply: Reply) -> PriorityChanged:
    """Read the priorities, which stand in headers."""
    return PriorityChanged(_number(reply, "x-old-priority"), _number(reply, "x-new-priority"))


def registered(_: Any, reply: Reply) -> Registered | Refreshed:
    """Read a registration; until when a known worker lives stands in a header."""
    if decoded(reply, str) == "Registered":
        return Registered()
    return Refreshed(_number(reply, "x-next-expiry-ms"))


def _number(reply: Reply, header: str) -> int:
    text = reply.headers.get(header, "")
    return int(text) if text.lstrip("-").isdigit() else 0


def refreshed(content: Any) -> Refreshed:
    """Read until when a worker lives."""
    return Refreshed(int(content["next_expiry_ms"]))


def _waitpoint(shape: Any) -> OpenWaitpoint:
    found: OpenWaitpoint = _converted(shape, OpenWaitpoint)
    return found


def opened(content: Any) -> WaitpointCreated:
    """Read a waitpoint that was opened ahead."""
    return WaitpointCreated(_waitpoint(content))


def suspended(content: Any) -> Suspended:
    """Read a suspension."""
    shape: SuspensionShape = _converted(content, SuspensionShape)
    return Suspended(
        shape.suspension_id, _waitpoint(content), tuple(map(_waitpoint, shape.additional_waitpoints))
    )


def satisfied(content: Any) -> SatisfiedAtOnce:
    """Read a suspension that was not needed."""
    shape: SuspensionShape = _converted(content, SuspensionShape)
    signals = tuple(signal.view() for signal in shape.resume_signals)
    return SatisfiedAtOnce(
        shape.suspension_id, _waitpoint(content), tuple(map(_waitpoint, shape.additional_waitpoints)), signals
    )


def appended(content: Any) -> tuple[Appended, ...]:
    """Read where frames went."""
    found: tuple[Appended, ...] = _converted(content, tuple[Appended, ...])
    return found


class _Existing(msgspec.Struct, frozen=True):
    result: msgspec.Raw = NOTHING
    result_base64: str | None = None
    encoding: str = ""


class _StepAnswer(msgspec.Struct, frozen=True, rename={"existing": "Existing"}):
    existing: _Existing


def step_put(_: Any, reply: Reply) -> StepStored | StepExisting:
    """Read what became of a step."""
    if reply.body == b'"Stored"':
        return StepStored()
    found = decoded(reply, _StepAnswer).existing
    encoding = found.encoding if found.result_base64 is not None else JSON
    return StepExisting(take(found.result, found.result_base64), encoding)
