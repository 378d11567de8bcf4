"""The stream of one attempt, as its handler writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from flowfabric.codecs import Codec, encode_value
from flowfabric.model.errors import invalid
from flowfabric.model.operations.stream import FrameInput
from flowfabric.worker.claimed_task import ClaimedTask
from flowfabric.worker.context.frames import FrameSender, now_ms
from flowfabric.worker.context.lease_guard import stop_if_lost
from flowfabric.worker.steps.journal import step_around


class AttemptStream:
    """Appends frames and summaries to the stream of one attempt."""

    def __init__(self, task: ClaimedTask, codec: Codec) -> None:
        self._task = task
        self._codec = codec
        self._sender: FrameSender | None = None

    async def emit(
        self,
        frame_type: str,
        payload: Any,
        *,
        best_effort: bool,
        correlation_id: str,
        metadata: Mapping[str, Any] | None,
    ) -> None:
        """Append a frame."""
        if isinstance(payload, str):
            data, encoding = payload.encode(), "utf8"
        else:
            data, encoding = encode_value(payload, self._codec)
        frame = FrameInput(
            payload=data,
            frame_type=frame_type,
            mode="best_effort" if best_effort else "durable",
            ts=now_ms(),
            encoding=encoding,
            correlation_id=correlation_id,
            metadata_json=json.dumps(metadata) if metadata else "",
            step=step_around(),
        )
        await self._send(frame)

    async def summary(self, patch: Mapping[str, Any]) -> None:
        """Merge a patch into the summary document."""
        if not isinstance(patch, Mapping):
            raise invalid("patch", f"give names and their values, not {type(patch).__qualname__}")
        data, _ = encode_value(dict(patch))
        frame = FrameInput(
            payload=data,
            frame_type="summary",
            mode="summary",
            ts=now_ms(),
            encoding="json",
            patch_kind="json-merge-patch",
            step=step_around(),
        )
        await self._send(frame)

    async def flush(self) -> None:
        """Wait until every frame is stored."""
        if self._sender is not None:
            await stop_if_lost(self._sender.flush())

    async def _send(self, frame: FrameInput) -> None:
        if self._sender is None:
            self._sender = FrameSender(self._task)
        await stop_if_lost(self._sender.emit(frame))
