"""Frames. The summary document is merged here, and saved if it is still the one that was merged into."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

from msgspec.structs import astuple, replace

from flowfabric.model.errors import FlowFabricError
from flowfabric.model.frames import frame_mode, normalise_bounds
from flowfabric.model.merge_patch import PATCH_KIND
from flowfabric.model.operations.stream import Appended, AppendFrames, FrameInput, patched, ttl_of
from flowfabric.model.records import Summary
from flowfabric.storage.valkey.codec import decode
from flowfabric.storage.valkey.operations.calls import OPERATIONS, Call, Packed, Reply, operation, pack_fields

_FRAMES: Final = AppendFrames.__struct_fields__.index("frames")
_NONE: Final = Summary(b"", 0, "", 0, 0)

MAX_KNOWN: Final = 256
MAX_KNOWN_BYTES: Final = 65_536


class Merge(NamedTuple):
    """The stored summary is another one than was merged into."""

    stored: Summary


class Saved(NamedTuple):
    """What was appended, and when."""

    answers: tuple[Appended, ...]
    at: int


class Summaries:
    """Summary documents as this process left them, so that the next patch of the same holder is one call."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], Summary] = OrderedDict()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def turn(self, command: AppendFrames) -> asyncio.Lock:
        """Return what lets the patches of one execution go one after the other, so that none is merged in vain."""
        lock = self._turns.get(command.execution_id)
        if lock is None:
            lock = self._turns[command.execution_id] = asyncio.Lock()
        return lock

    def of(self, command: AppendFrames) -> Summary:
        """Return what is probably stored; whether it is, the server says."""
        return self._known.get(_name(command), _NONE)

    def keep(self, command: AppendFrames, summary: Summary) -> None:
        """Remember what is stored now; long documents are read again instead."""
        self._known.pop(_name(command), None)
        if len(summary.document) <= MAX_KNOWN_BYTES:
            self._known[_name(command)] = summary
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)


def _name(command: AppendFrames) -> tuple[str, str]:
    return command.execution_id, command.fence.attempt_id


def patches(command: AppendFrames) -> bool:
    """Whether some frames change the summary."""
    return any(frame_mode(frame.mode) == "summary" for frame in command.frames)


def merged(command: AppendFrames, summary: Summary) -> Summary | FlowFabricError:
    """Apply every patch of a call in its order, or say why one of them cannot be applied."""
    try:
        for frame in command.frames:
            if frame_mode(frame.mode) == "summary":
                summary = patched(summary, frame, 0)
    except FlowFabricError as error:
        return error
    return summary


def append_call(command: AppendFrames, old: Summary, new: Summary | FlowFabricError) -> Call:
    """Say how frames are sent whose patches were merged into a summary."""
    about: dict[str, Any] = {
        "version": old.doc_version,
        "updated": old.last_updated_ms,
        "patch_kind": PATCH_KIND,
    }
    if isinstance(new, FlowFabricError):
        about["refusal"] = (new.code, new.text, new.field, *new.details)
        fields, payloads = _packed(command, about, b"")
    else:
        fields, payloads = _packed(command, about, new.document)
    return Call(command, OPERATIONS[AppendFrames], (pack_fields(fields), *payloads))


def _packed(command: AppendFrames, about: dict[str, Any], *more: bytes) -> Packed:
    fields: list[Any] = list(astuple(command))
    fields[_FRAMES] = {"sent": [_input(frame) for frame in command.frames], **about}
    return fields, (*(frame.payload for frame in command.frames), *more)


def _input(frame: FrameInput) -> tuple[Any, ...]:
    """Put bounds in order; payloads travel beside."""
    mode = frame_mode(frame.mode)
    floor, ceiling, alpha = normalise_bounds(frame.maxlen_floor, frame.maxlen_ceiling, frame.ema_alpha)
    ttl_ms = ttl_of(frame) if mode == "best_effort" else 0
    sound = replace(
        frame, payload=b"", mode=mode, ttl_ms=ttl_ms, maxlen_floor=floor, maxlen_ceiling=ceiling,
        ema_alpha=float(alpha),
    )  # fmt: skip
    return ("", *astuple(sound)[1:])


def _pack(command: AppendFrames) -> Packed:
    return _packed(command, {})


@operation(AppendFrames, "ff_append_frames", pack=_pack)
def _appended(command: AppendFrames, reply: Reply) -> tuple[Appended, ...] | Saved | Merge:
    if reply.text("outcome") == "merge":
        packed = reply.bytes("summary")
        return Merge(decode("summary", packed) if packed else _NONE)
    at = reply.integer("now")
    answers = tuple(_frame(reply.list("frame")) for _ in range(reply.rest()))
    return Saved(answers, at) if patches(command) else answers


def _frame(parts: list[Any]) -> Appended:
    reply = Reply("ff_append_frames", parts)
    return Appended(reply.text("entry_id"), reply.integer("frame_count"), reply.integer("summary_version"))
