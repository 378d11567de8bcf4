"""Appending frames; those that patch the summary go the general way, where Python merges them."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import astuple, replace

from flowfabric.model.frames import frame_mode, normalise_bounds
from flowfabric.model.operations.stream import Appended, AppendFrames, FrameInput, ttl_of
from flowfabric.storage.valkey.operations.calls import Packed, Reply, operation

_FRAMES: Final = AppendFrames.__struct_fields__.index("frames")


def _pack(command: AppendFrames) -> Packed | None:
    if any(frame_mode(frame.mode) == "summary" for frame in command.frames):
        return None
    fields: list[Any] = list(astuple(command))
    fields[_FRAMES] = [_input(frame) for frame in command.frames]
    return fields, tuple(frame.payload for frame in command.frames)


def _input(frame: FrameInput) -> tuple[Any, ...]:
    """Put bounds in order; payloads travel beside."""
    mode = frame_mode(frame.mode)
    floor, ceiling, alpha = normalise_bounds(frame.maxlen_floor, frame.maxlen_ceiling, frame.ema_alpha)
    ttl_ms = ttl_of(frame) if mode == "best_effort" else 0
    sound = replace(
        frame,
        payload=b"",
        mode=mode,
        ttl_ms=ttl_ms,
        maxlen_floor=floor,
        maxlen_ceiling=ceiling,
        ema_alpha=float(alpha),
    )
    return ("", *astuple(sound)[1:])


@operation(AppendFrames, "ff_append_frames", pack=_pack)
def _appended(_: AppendFrames, reply: Reply) -> tuple[Appended, ...]:
    return tuple(_frame(reply.list("frame")) for _ in range(reply.rest()))


def _frame(parts: list[Any]) -> Appended:
    reply = Reply("ff_append_frames", parts)
    return Appended(reply.text("entry_id"), reply.integer("frame_count"), 0)
