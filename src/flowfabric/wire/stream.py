"""Frames of an attempt: appending, reading, tailing, summing up."""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Raw
from msgspec.structs import asdict

from flowfabric.model.operations.stream import (
    Appended,
    AppendFrames,
    FrameInput,
    FrameView,
    ReadStream,
    ReadSummary,
    TailStream,
)
from flowfabric.wire.answers import OneOf, View, converted, decoded
from flowfabric.wire.errors import bad_request
from flowfabric.wire.examples import FENCE
from flowfabric.wire.fields import U64, Body, HolderBody, Integer, Ms
from flowfabric.wire.payload import from_base64, to_base64
from flowfabric.wire.rights import Right
from flowfabric.wire.route import FRAMES, RUN, Incoming, route

BLOCK_MAX_MS: Final = 30_000
"""The longest wait of one read."""
STREAM = f"{RUN}/attempts/{{idx}}/stream"
Visibility = Literal["all", "exclude_best_effort"]


class FrameBody(Body, frozen=True):
    """One frame; its payload is text, or bytes in base64."""

    frame_type: str
    payload: str | None = None
    payload_base64: str | None = None
    mode: str | None = None
    correlation_id: str | None = None
    ts: Ms | None = None
    encoding: str | None = None
    source: str | None = None
    metadata_json: str | None = None
    patch_kind: str | None = None
    retention_maxlen: Integer | None = None
    ttl_ms: Integer | None = None
    maxlen_floor: Integer | None = None
    maxlen_ceiling: Integer | None = None
    ema_alpha: float | None = None
    step: str | None = None
    """The durable step in which it was emitted."""

    @classmethod
    def of(cls, frame: FrameInput) -> FrameBody:
        """Build it from a frame of the engine."""
        fields: dict[str, Any] = asdict(frame)
        try:
            fields["payload"] = frame.payload.decode()
        except UnicodeDecodeError:
            fields["payload"], fields["payload_base64"] = None, to_base64(frame.payload)
        return cls(**fields)

    def frame(self, place: str) -> FrameInput:
        """Return the frame of the engine; refuse one without a payload, or with two."""
        if (self.payload is None) == (self.payload_base64 is None):
            raise bad_request(f"{place}.payload: give payload or payload_base64", field=f"{place}.payload")
        if self.payload_base64 is not None:
            payload = from_base64(f"{place}.payload_base64", self.payload_base64)
        else:
            payload = (self.payload or "").encode()
        return FrameInput(
            payload,
            self.frame_type,
            _given(self.mode, "durable"),
            self.ts,
            _given(self.encoding, "utf8"),
            self.correlation_id or "",
            _given(self.source, "worker"),
            self.metadata_json or "",
            self.patch_kind or "",
            self.retention_maxlen or 0,
            self.ttl_ms or 0,
            self.maxlen_floor or 0,
            self.maxlen_ceiling or 0,
            self.ema_alpha or 0.0,
            self.step or "",
        )


def _given(text: str | None, default: str) -> str:
    return default if text is None else text


class FramesBody(HolderBody, frozen=True, kw_only=True):
    """Frames, appended all or none."""

    frames: tuple[FrameBody, ...]
    attempt_index: Integer | None = None
    """When given, it must be the current one."""


class AppendedView(View, frozen=True, kw_only=True):
    """Where one frame went."""

    entry_id: str
    frame_count: int
    summary_version: int = 0


def _frames(_: Incoming, body: FramesBody) -> dict[str, Any]:
    return {"frames": tuple(each.frame(f"frames[{place}]") for place, each in enumerate(body.frames))}


def _appended(_: Any, reply: Any) -> tuple[Appended, ...]:
    found: dict[str, tuple[Appended, ...]] = converted(decoded(reply.body), dict[str, tuple[Appended, ...]])
    return found.get("Appended", ())


APPEND = route(
    "append_frames", "POST", f"{RUN}/frames", Right.WORK, "Append frames to the stream of the running attempt.",
    command=AppendFrames, body=FramesBody, answer=OneOf({"Appended": tuple[AppendedView, ...]}), limit=FRAMES,
    takes=_frames, sends=lambda command: {"frames": tuple(map(FrameBody.of, command.frames))}, reads=_appended,
    example={"fence": FENCE, "frames": [{"frame_type": "token", "payload": "Hel"}]},
)  # fmt: skip


class ReadQuery(Body, frozen=True, rename={"from_": "from"}):
    """Between which frames, both inclusive."""

    from_: str = "start"
    to: str = "end"
    limit: U64 = 100
    visibility: Visibility = "all"


class TailQuery(Body, frozen=True):
    """After which frame, and how long to wait for one."""

    after: str = "0-0"
    block_ms: U64 = 0
    limit: U64 = 50
    visibility: Visibility = "all"


class FrameRow(View, frozen=True, kw_only=True):
    """A frame; everything in it is text."""

    id: str
    fields: dict[str, str]


class FramesView(View, frozen=True, kw_only=True):
    """Frames in order, and whether the stream has ended."""

    frames: tuple[FrameRow, ...]
    count: int
    closed_at: int = 0
    closed_reason: str = ""


READ = route(
    "read_stream", "GET", STREAM, Right.READ, "Read frames of an attempt.",
    questions=(ReadStream,), query=ReadQuery, answer=FramesView, classic=True,
)  # fmt: skip
TAIL = route(
    "tail_stream", "GET", f"{STREAM}/tail", Right.READ,
    "Return the frames after one; when there is none, wait for one or for the end of the stream.",
    questions=(TailStream,), query=TailQuery, answer=FramesView, classic=True,
)  # fmt: skip


class SummaryDocument(View, frozen=True, kw_only=True):
    """The summary document of an attempt."""

    document: Raw
    version: int
    last_updated_ms: int
    first_applied_ms: int
    patch_kind: str


READ_SUMMARY = route(
    "stream_summary",
    "GET",
    f"{STREAM}/summary",
    Right.READ,
    "Return the summary document of an attempt.",
    questions=(ReadSummary,),
    answer=SummaryDocument,
)


def frame_fields(view: FrameView) -> dict[str, str]:
    """Return the fields of a frame as text; bytes that are not text come as base64 and say so."""
    frame = view.frame
    try:
        payload, encoding = frame.payload.decode(), frame.encoding
    except UnicodeDecodeError:
        payload, encoding = to_base64(frame.payload), "base64"
    fields = {
        "frame_type": frame.frame_type,
        "ts": str(frame.ts),
        "payload": payload,
        "encoding": encoding,
        "source": frame.source,
        "mode": frame.mode,
    }
    further = {
        "correlation_id": frame.correlation_id,
        "summary_version": str(frame.summary_version or ""),
        "ttl_ms": str(frame.ttl_ms or ""),
        "metadata_json": frame.metadata_json,
        "lease_epoch": str(frame.lease_epoch or ""),
        "step": frame.step,
    }
    return fields | {name: text for name, text in further.items() if text}
