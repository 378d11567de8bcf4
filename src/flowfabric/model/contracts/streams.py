"""Frames, summaries and durable steps."""

from __future__ import annotations

from msgspec import Struct

from flowfabric.model import checks
from flowfabric.model.contracts.base import HolderCommand, Need
from flowfabric.model.errors import invalid, refuse
from flowfabric.model.limits import (
    MAX_FRAME_BYTES,
    MAX_INT,
    MAX_NAME_BYTES,
    MAX_STEP_BYTES,
    MAX_STEPS,
    MAX_TEXT_BYTES,
)

MAX_FRAMES_PER_CALL = 256


class FrameInput(Struct, frozen=True):
    """One frame to append."""

    payload: bytes
    frame_type: str = "event"
    mode: str = "durable"
    ts: int | None = None
    encoding: str = "utf8"
    correlation_id: str = ""
    source: str = "worker"
    metadata_json: str = ""
    patch_kind: str = ""
    retention_maxlen: int = 0
    """0: the policy's."""
    ttl_ms: int = 0
    maxlen_floor: int = 0
    maxlen_ceiling: int = 0
    ema_alpha: float = 0.0
    step: str = ""
    """The durable step in which it was emitted; empty: outside of any."""

    def check(self) -> None:
        """Check the size first, then every field."""
        if not isinstance(self.payload, bytes):
            raise invalid("payload", "send bytes")
        if len(self.payload) > MAX_FRAME_BYTES:
            raise refuse("retention_limit_exceeded", str(MAX_FRAME_BYTES), field="payload")
        checks.name("frame_type", self.frame_type)
        for field in ("encoding", "correlation_id", "source", "mode", "step"):
            checks.text(field, getattr(self, field), max_bytes=MAX_NAME_BYTES, empty=True)
        checks.text("metadata_json", self.metadata_json, max_bytes=MAX_TEXT_BYTES, empty=True)
        if self.patch_kind not in {"", "json-merge-patch"}:
            raise invalid("patch_kind", "unsupported patch_kind")
        for field in ("retention_maxlen", "ttl_ms"):
            checks.integer(field, getattr(self, field), 0, MAX_INT)
        for field in ("maxlen_floor", "maxlen_ceiling"):
            checks.integer(field, getattr(self, field), -MAX_INT, MAX_INT)
        if not isinstance(self.ema_alpha, int | float):
            raise invalid("ema_alpha", "a number from 0 to 1")
        if self.ts is not None:
            checks.integer("ts", self.ts, 0, MAX_INT)


class Appended(Struct, frozen=True):
    """Where one frame went."""

    entry_id: str
    frame_count: int
    summary_version: int = 0


class AppendFrames(HolderCommand[tuple[Appended, ...]], frozen=True, kw_only=True):
    """Append frames to the current attempt's stream, all or none."""

    frames: tuple[FrameInput, ...]
    attempt_index: int | None = None
    """When given, it must be the current one."""

    def check(self) -> None:
        """Check every frame."""
        super().check()
        if self.attempt_index is not None:
            checks.integer("attempt_index", self.attempt_index)
        if not 1 <= len(self.frames) <= MAX_FRAMES_PER_CALL:
            raise invalid("frames", f"send 1 to {MAX_FRAMES_PER_CALL} frames")
        for frame in self.frames:
            frame.check()


class StepStored(Struct, frozen=True):
    """This result is the step's result from now on."""


class StepExisting(Struct, frozen=True):
    """The step had a result already; it stands."""

    result: bytes
    encoding: str


class PutStep(HolderCommand[StepStored | StepExisting], frozen=True, kw_only=True):
    """Store the result of a durable step; the first writer wins."""

    step_name: str
    result: bytes
    encoding: str = "json"
    call_index: int | None = None
    """Its place among the calls of the handler; none: after those that are stored."""

    def check(self) -> None:
        """Check name, size and place."""
        super().check()
        checks.name("step_name", self.step_name)
        checks.payload("result", self.result, MAX_STEP_BYTES)
        checks.text("encoding", self.encoding, max_bytes=MAX_NAME_BYTES, empty=True)
        if self.call_index is not None:
            checks.integer("call_index", self.call_index, 0, MAX_STEPS)

    def needs(self) -> tuple[Need, ...]:
        """The execution and the step."""
        return (*super().needs(), ("step", (self.execution_id, self.step_name)))
