"""Append frames to streams; read, tail and summarise them."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.model import checks
from flowfabric.model.command import ExecutionQuestion, HolderCommand, Page
from flowfabric.model.errors import invalid, refuse
from flowfabric.model.frames import FrameMode, frame_mode, keep_entries, next_rate, normalise_bounds
from flowfabric.model.ids import entry_id, parse_cursor, parse_entry_id
from flowfabric.model.limits import (
    FRAME_READ_MAX,
    MAX_FRAME_BYTES,
    MAX_INT,
    MAX_NAME_BYTES,
    MAX_STREAM_LEASES,
    MAX_SUMMARY_BYTES,
    MAX_TEXT_BYTES,
    SUMMARY_MAXLEN,
)
from flowfabric.model.machine.group import step
from flowfabric.model.machine.holding import adopt_fence, holds
from flowfabric.model.machine.workspace import Workspace
from flowfabric.model.merge_patch import apply_patch, patch_kind
from flowfabric.model.record_kinds import EXECUTION, STREAM, SUMMARY, IndexQuery
from flowfabric.model.records import VERSION, Execution, Frame, LeaseStart, Stream, Summary
from flowfabric.model.state import Ownership, Phase

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


BEST_EFFORT_TTL_MS: Final = 60_000
"""How long best-effort frames are worth keeping when the call does not say."""


@step(AppendFrames)
def append_frames(space: Workspace, command: AppendFrames) -> tuple[Appended, ...]:
    """Append frames to the stream of the running attempt, all or none. Not told in the history."""
    run = _owned(space, command)
    place = (run.execution_id, run.attempt.index)
    before = space.get(STREAM, *place) if run.has_stream else None
    stream = _opened(before, run, space.now)
    modes = [frame_mode(frame.mode) for frame in command.frames]
    summary = space.get(SUMMARY, *place) if "summary" in modes else None
    frames: list[Frame] = []
    answers: list[Appended] = []
    for sent, mode in zip(command.frames, modes, strict=True):
        if mode == "summary":
            summary = patched(summary, sent, space.now)
        version = summary.doc_version if summary is not None and mode == "summary" else 0
        stream = _trimmed(_counted(stream, sent, space.now), run, sent, mode, space.now)
        if not frames:
            stream = _leased(stream, run.current_lease_epoch)
        frames.append(_frame(stream, sent, mode, version, run.current_lease_epoch, space.now))
        answers.append(Appended(entry_id(stream.last_ms, stream.last_seq), stream.frame_count, version))
    _write(space, run, before, stream, frames)
    if summary is not None:
        space.put(SUMMARY, *place, value=summary)
    return tuple(answers)


def forgotten(stream: Stream, now: int) -> bool:
    """Whether the time of a stream that never held anything durable is over, and its frames with it."""
    return bool(stream.expires_at) and stream.expires_at <= now


def _owned(space: Workspace, command: AppendFrames) -> Execution:
    """Let only the lease holder pass. A lease that has run out is left for others to mark."""
    run = space.get(EXECUTION, command.execution_id)
    if run is None:
        raise refuse("stream_closed")
    fence = adopt_fence(run, command, override=False)
    if run.lifecycle_phase is not Phase.ACTIVE:
        raise refuse("stream_closed")
    if (
        run.ownership_state is not Ownership.LEASED
        or run.lease_expires_at <= space.now
        or command.attempt_index not in {None, run.attempt.index}
        or not holds(run, fence)
    ):
        raise refuse("stale_owner_cannot_append")
    return run


def _opened(stream: Stream | None, run: Execution, now: int) -> Stream:
    if stream is None:
        return Stream(VERSION, run.current_attempt_id, now)
    if stream.closed_at:
        raise refuse("stream_closed")
    return replace(stream, first=stream.frame_count + 1) if forgotten(stream, now) else stream


def _counted(stream: Stream, sent: FrameInput, now: int) -> Stream:
    """Give a frame its number and its id. A clock that stands or goes back never makes ids go back."""
    ms, seq = (now, 0) if now > stream.last_ms else (stream.last_ms, stream.last_seq + 1)
    return replace(
        stream,
        frame_count=stream.frame_count + 1,
        last_ms=ms,
        last_seq=seq,
        last_frame_at=now,
        total_bytes=stream.total_bytes + len(sent.payload),
    )


def _leased(stream: Stream, epoch: int) -> Stream:
    """Note the first frame of a lease, which was just counted."""
    leases = stream.leases
    if leases and leases[-1][0] == epoch:
        return stream
    if len(leases) >= MAX_STREAM_LEASES:
        leases = ((leases[1][0], *leases[0][1:]), *leases[2:])
    return replace(stream, leases=(*leases, (epoch, stream.last_ms, stream.last_seq)))


def _trimmed(stream: Stream, run: Execution, sent: FrameInput, mode: FrameMode, now: int) -> Stream:
    """Drop the oldest frames as the mode of the newest one says, whatever their own modes were."""
    if mode == "best_effort":
        return _trimmed_by_rate(stream, sent, now)
    keep = SUMMARY_MAXLEN if mode == "summary" else sent.retention_maxlen or run.policy.stream_maxlen
    return replace(_keeping(stream, keep), has_durable_frame=True, expires_at=0)


def _trimmed_by_rate(stream: Stream, sent: FrameInput, now: int) -> Stream:
    ttl_ms = ttl_of(sent)
    floor, ceiling, alpha = normalise_bounds(sent.maxlen_floor, sent.maxlen_ceiling, sent.ema_alpha)
    rate = next_rate(stream.rate_hz, stream.last_best_effort_at, now, ttl_ms, floor, alpha)
    expires_at = 0 if stream.has_durable_frame else min(now + 2 * ttl_ms, MAX_INT)
    return replace(
        _keeping(stream, keep_entries(rate, ttl_ms, floor, ceiling)),
        rate_hz=rate,
        last_best_effort_at=now,
        expires_at=expires_at,
    )


def _keeping(stream: Stream, keep: int) -> Stream:
    return replace(stream, first=max(stream.first, stream.frame_count - keep + 1), maxlen_applied_last=keep)


def ttl_of(sent: FrameInput) -> int:
    """How long a best-effort frame is worth keeping."""
    return sent.ttl_ms or BEST_EFFORT_TTL_MS


def patched(summary: Summary | None, sent: FrameInput, now: int) -> Summary:
    """Merge the patch of one frame into the summary."""
    old = summary or Summary(b"", 0, "", 0, now)
    document = apply_patch(old.document, sent.payload)
    if len(document) > MAX_SUMMARY_BYTES:
        text = f"the summary would be {len(document)} bytes long; at most {MAX_SUMMARY_BYTES} are allowed"
        raise refuse("payload_too_large", text=text, field="payload")
    return Summary(document, old.doc_version + 1, patch_kind(sent.patch_kind), now, old.first_applied_ms)


def _frame(stream: Stream, sent: FrameInput, mode: FrameMode, version: int, epoch: int, now: int) -> Frame:
    return Frame(
        number=stream.frame_count,
        ms=stream.last_ms,
        seq=stream.last_seq,
        frame_type=sent.frame_type,
        ts=now if sent.ts is None else sent.ts,
        payload=sent.payload,
        encoding=sent.encoding,
        source=sent.source,
        mode=mode,
        correlation_id=sent.correlation_id,
        summary_version=version,
        ttl_ms=ttl_of(sent) if mode == "best_effort" else 0,
        metadata_json=sent.metadata_json,
        lease_epoch=epoch,
        step=sent.step,
    )


def _write(
    space: Workspace, run: Execution, before: Stream | None, stream: Stream, frames: list[Frame]
) -> None:
    place = (run.execution_id, run.attempt.index)
    if before is None:
        space.touch(replace(run, has_stream=True))
    space.put(STREAM, *place, value=stream)
    for frame in frames:
        # What the same call has pushed out again need not be stored first.
        if frame.number >= stream.first:
            space.emit("frame", *place, value=frame)
    if before is not None and stream.first > before.first:
        space.emit("trim", *place, value=stream.first)


class FrameView(Struct, frozen=True):
    """A frame and its id."""

    entry_id: str
    frame: Frame


class StreamPage(Page, frozen=True):
    """Frames in order, and whether the stream has ended."""

    frames: tuple[FrameView, ...]
    closed_at: int = 0
    closed_reason: str = ""
    last: str = ""
    """The last entry that was looked at, shown or not: where a tail goes on. Empty when there was none."""
    leases: tuple[LeaseStart, ...] = ()
    """Which leases appended frames, and the id of the first frame of each, oldest first."""


class _StreamQuestion(ExecutionQuestion[StreamPage], frozen=True, kw_only=True):
    attempt_index: int
    count: int = 50
    exclude_best_effort: bool = False

    def check(self) -> None:
        """Check index and count."""
        super().check()
        checks.integer("attempt_index", self.attempt_index, 0, MAX_INT)
        if self.count < 1:
            raise invalid("count", "count_limit must be >= 1")
        if self.count > FRAME_READ_MAX:
            raise invalid("count", "count_limit_exceeds_hard_cap")


class ReadStream(_StreamQuestion, frozen=True, kw_only=True):
    """Return frames between two cursors, both inclusive."""

    from_: str = "start"
    to: str = "end"

    def check(self) -> None:
        """Check the cursors."""
        super().check()
        parse_cursor("from", self.from_)
        parse_cursor("to", self.to, upper=True)


FramePosition = tuple[int, int]
_BEGIN: Final[FramePosition] = (0, 0)
_END: Final[FramePosition] = (MAX_INT, MAX_INT)


@step(ReadStream)
def read_stream(space: Workspace, question: ReadStream) -> StreamPage:
    """Return frames between two positions, both inclusive."""
    low = _position("from", question.from_)
    high = _position("to", question.to, upper=True)
    return _frames(space, question, low, high)


class TailStream(_StreamQuestion, frozen=True, kw_only=True):
    """Return frames after a cursor, exclusive, without waiting."""

    after: str = "0-0"

    def check(self) -> None:
        """Check the cursor: a concrete id."""
        super().check()
        parse_entry_id("after", self.after)


@step(TailStream)
def tail_stream(space: Workspace, question: TailStream) -> StreamPage:
    """Return the frames after a position."""
    ms, seq = parse_entry_id("after", question.after)
    return _frames(space, question, (ms, seq + 1), _END)


def _position(field: str, cursor: str, *, upper: bool = False) -> FramePosition:
    kind, position = parse_cursor(field, cursor, upper=upper)
    if position is not None:
        return position
    return _BEGIN if kind == "start" else _END


FRAMES: Final[IndexQuery[tuple[Frame, ...]]] = IndexQuery("frames")


def _frames(
    space: Workspace, question: ReadStream | TailStream, low: FramePosition, high: FramePosition
) -> StreamPage:
    run = space.execution(question.execution_id)
    place = (run.execution_id, question.attempt_index)
    stream = space.get(STREAM, *place)
    if stream is None:
        return StreamPage(())
    frames: tuple[Frame, ...] = ()
    if not forgotten(stream, space.now):
        frames = space.get(FRAMES, *place, *low, *high, question.count)
    shown = tuple(
        FrameView(entry_id(frame.ms, frame.seq), frame)
        for frame in frames
        if not (question.exclude_best_effort and frame.mode == "best_effort")
    )
    last = entry_id(frames[-1].ms, frames[-1].seq) if frames else ""
    return StreamPage(shown, stream.closed_at, stream.closed_reason, last, stream.leases)


class SummaryView(Struct, frozen=True):
    """The summary document of one attempt."""

    document: bytes
    version: int
    patch_kind: str
    last_updated_ms: int
    first_applied_ms: int


class ReadSummary(ExecutionQuestion[SummaryView | None], frozen=True, kw_only=True):
    """Return the summary of one attempt, or nothing."""

    attempt_index: int

    def check(self) -> None:
        """Check the index."""
        super().check()
        checks.integer("attempt_index", self.attempt_index, 0, MAX_INT)


@step(ReadSummary)
def read_summary(space: Workspace, question: ReadSummary) -> SummaryView | None:
    """Return the summary document of one attempt."""
    run = space.execution(question.execution_id)
    found = space.get(SUMMARY, run.execution_id, question.attempt_index)
    if found is None:
        return None
    return SummaryView(
        found.document, found.doc_version, found.patch_kind, found.last_updated_ms, found.first_applied_ms
    )
