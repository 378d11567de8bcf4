"""What operators do to an execution."""

from __future__ import annotations

from typing import Any

from flowfabric.model.operations.operate import (
    ChangePriority,
    Pause,
    Paused,
    PriorityChanged,
    Replay,
    Replayed,
    SetTags,
    TagsSet,
    Unpause,
    Unpaused,
)
from flowfabric.wire.answers import View, one_of
from flowfabric.wire.fields import Body, Priority
from flowfabric.wire.rights import Right
from flowfabric.wire.route import RUN, Incoming, always, route


class ReasonBody(Body, frozen=True):
    """Why."""

    reason: str | None = None


PAUSE = route(
    "pause", "POST", f"{RUN}/pause", Right.OPERATE, "Hold a runnable execution back.",
    command=Pause, body=ReasonBody, body_optional=True, answer=one_of(Paused), safe=always,
    example={"reason": "wrong input"},
)  # fmt: skip
UNPAUSE = route(
    "unpause", "POST", f"{RUN}/unpause", Right.OPERATE, "Let a paused execution go on.",
    command=Unpause, body=ReasonBody, body_optional=True, answer=one_of(Unpaused), safe=always,
    example={"reason": "input is right"},
)  # fmt: skip


class TagsBody(Body, frozen=True):
    """Tags to set; others stay."""

    tags: dict[str, str]


SET_TAGS = route(
    "set_tags", "PUT", f"{RUN}/tags", Right.OPERATE, "Set tags of an execution.",
    command=SetTags, body=TagsBody, answer=one_of(Updated=TagsSet), safe=always,
    example={"tags": {"team": "images"}},
)  # fmt: skip


class PriorityBody(Body, frozen=True):
    """A priority; it is kept between 0 and 9000."""

    new_priority: Priority


class PriorityView(View, frozen=True, kw_only=True):
    """The execution whose priority changed; the priorities are in `X-Old-Priority` and `X-New-Priority`."""

    execution_id: str


def clamped(priority: int | None) -> int | None:
    """Bring a priority into the range that a body can carry; the engine keeps it between 0 and 9000 anyway."""
    return None if priority is None else max(-(2**31), min(priority, 2**31 - 1))


def number_in(reply: Any, header: str) -> int:
    """Read a number from a header of an answer; 0 if it has none."""
    text = reply.headers.get(header, "")
    return int(text) if text.lstrip("-").isdigit() else 0


def _priorities(_: Any, reply: Any) -> PriorityChanged:
    return PriorityChanged(number_in(reply, "x-old-priority"), number_in(reply, "x-new-priority"))


CHANGE_PRIORITY = route(
    "change_priority", "PUT", f"{RUN}/priority", Right.OPERATE,
    "Change the priority of an execution that has not ended.",
    command=ChangePriority, body=PriorityBody, answer=one_of(Changed=PriorityView), classic=True,
    names={"new_priority": "priority"}, sends=lambda command: {"new_priority": clamped(command.priority)},
    reads=_priorities, example={"new_priority": 100},
)  # fmt: skip


class ReplayQuery(Body, frozen=True):
    """Which durable steps the new run finds; none unless asked for."""

    keep_steps: bool = False
    from_step: str = ""
    reason: str = ""
    requested_by: str = ""
    """Who wants it, where it is somebody else than the one who asks."""


def _requester(call: Incoming, query: ReplayQuery) -> dict[str, Any]:
    return {"requested_by": query.requested_by or call.actor}


REPLAY = route(
    "replay", "POST", f"{RUN}/replay", Right.OPERATE, "Run an ended execution again.",
    command=Replay, query=ReplayQuery, answer=one_of(Replayed), classic=True, takes=_requester,
)  # fmt: skip
