"""Saving: what a group has read and changed, as arguments of `ff_commit`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import astuple, replace

from flowfabric.model.machine.workspace import Effect, Workspace
from flowfabric.model.presence import unwritten
from flowfabric.model.records import Event, Execution, Payload
from flowfabric.storage.valkey.codec import BYTES
from flowfabric.storage.valkey.executions import fixed, stored
from flowfabric.storage.valkey.keys import Layout
from flowfabric.storage.valkey.operations import pack_fields
from flowfabric.storage.valkey.requests import Request

Argument = str | bytes
_encode: Final = msgspec.msgpack.Encoder().encode


class Reads:
    """The requests of a load with their replies: what a decision depends on."""

    def __init__(self) -> None:
        self._requests: list[Request] = []
        self._replies: list[Any] = []

    def note(self, request: Request, reply: Any) -> None:
        """Remember one request and what came back."""
        self._requests.append(request)
        self._replies.append(reply)

    def with_replies(self, replies: list[Any]) -> dict[Request, Any]:
        """Return other replies to the same requests, by request."""
        return dict(zip(self._requests, replies, strict=True))

    def arguments(self) -> list[Argument]:
        """Return the digest of all replies, and the requests to repeat."""
        parts: list[bytes] = []
        for reply in self._replies:
            _append_reply(reply, parts)
        digest = hashlib.sha1(b"".join(parts), usedforsecurity=False).hexdigest()
        return [digest, _encode(self._requests)]


def _append_reply(reply: Any, parts: list[bytes]) -> None:
    """Append a reply to the text whose digest is compared; commit.lua writes the same."""
    if isinstance(reply, bytes):
        parts += (b"$%d:" % len(reply), reply)
    elif isinstance(reply, int):
        parts.append(b":%d;" % reply)
    elif isinstance(reply, list):
        parts.append(b"*%d;" % len(reply))
        for each in reply:
            _append_reply(each, parts)
    else:
        parts.append(b"-")


class Saver:
    """Saves one group."""

    def __init__(self, space: Workspace, layout: Layout) -> None:
        self.space = space
        self.layout = layout

    def writes(self) -> list[Argument]:
        """Return everything that the group changed, as commit.lua reads it."""
        found: list[Argument] = []
        for (kind, key), _, new in self.space.changes():
            if kind == "execution":
                found += self._execution(key[0], new)
            elif kind == "payload":
                found += ("payload", key[0], new.input, new.policy_json)
            else:
                where, field = self.layout.place(kind, key)
                names = (*map(str, key[:2]), "", "")[:2]
                found += ("record", kind, where, field or "", _packed(kind, new), *names)
        for execution_id, event in self.space.events:
            found += self._event(execution_id, event)
        for effect in self.space.effects:
            found += self._effect(effect)
        if not self.layout.clustered:  # there the record of a worker has another home
            sights = ((each.key, each.value) for each in self.space.effects if each.kind == "seen")
            for claim in unwritten(sights):
                found += ("seen", pack_fields(astuple(claim)))
        return found

    def _execution(self, execution_id: str, run: Execution | None) -> Iterator[Argument]:
        if run is None:
            return iter(("gone", execution_id))
        payload: Payload | None = None
        if self.space.original["execution", (execution_id,)] is None:
            payload = self.space.current["payload", (execution_id,)]
        return iter(
            (
                "execution",
                execution_id,
                stored(run),
                b"" if payload is None else fixed(run, payload.policy_json),
            )
        )

    def _event(self, execution_id: str, event: Event) -> Iterator[Argument]:
        run: Execution = self.space.current["execution", (execution_id,)]
        *fields, details = astuple(event)
        about = (run.execution_id, run.namespace, run.lane_id, run.execution_kind, run.flow_id)
        line = _encode([*about, *fields, *(text for pair in details for text in pair)])
        return iter(("event", execution_id, str(event.seq), line))

    def _effect(self, effect: Effect) -> Iterator[Argument]:
        kind, key, value = effect.kind, effect.key, effect.value
        if kind == "frame":
            return iter((kind, key[0], str(key[1]), f"{value.ms}-{value.seq}", _packed(kind, value)))
        if kind == "trim":
            stream = self.space.current["stream", key]
            return iter((kind, key[0], str(key[1]), str(stream.frame_count - value + 1)))
        if kind == "purge":
            return iter((kind, key[0], str(value.total_attempt_count), value.namespace))
        return iter((kind, key[0]) if kind == "drop_steps" else ())


def _packed(kind: str, record: Any) -> bytes:
    """Pack a record as `decode` reads it."""
    if record is None:
        return b""
    field = BYTES.get(kind)
    if field is None:
        return _encode(record)
    data: bytes = getattr(record, field)
    head = _encode(replace(record, **{field: ""}))
    return b"".join((b"\x92", head, b"\xc6", len(data).to_bytes(4, "big"), data))
