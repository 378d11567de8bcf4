"""The JSON document that is stored as the result of a durable wait."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable

from msgspec import Struct, json

from flowfabric.model.views import SignalView


class WaitSignal(Struct, frozen=True, omit_defaults=True):
    """One signal that ended a wait. Its payload is text where it is valid UTF-8, otherwise base64."""

    signal_id: str
    signal_name: str
    signal_category: str
    source_type: str
    source_identity: str
    correlation_id: str
    accepted_at: int
    payload_encoding: str
    payload: str | None = None
    payload_base64: str | None = None

    def data(self) -> bytes:
        """Return the payload as it was sent."""
        if self.payload_base64 is not None:
            return b64decode(self.payload_base64)
        return (self.payload or "").encode()

    def view(self) -> SignalView:
        """Return it as the handler that waited sees it."""
        return SignalView(
            self.signal_id,
            self.signal_name,
            self.signal_category,
            self.source_type,
            self.source_identity,
            self.correlation_id,
            self.accepted_at,
            self.data(),
            self.payload_encoding,
        )


class WaitResult(Struct, frozen=True):
    """How a wait ended: by `signal`, `operator` or `timeout`; only the first brings signals."""

    reason: str
    signals: tuple[WaitSignal, ...] = ()


def pack_wait(reason: str, signals: Iterable[SignalView]) -> bytes:
    """Write the document."""
    return json.encode(WaitResult(reason, tuple(map(wait_signal, signals))))


def unpack_wait(document: bytes) -> WaitResult:
    """Read the document."""
    return json.decode(document, type=WaitResult)


def wait_signal(signal: SignalView) -> WaitSignal:
    """Return a signal as documents and answers show it."""
    text, binary = None, None
    try:
        text = signal.payload.decode()
    except UnicodeDecodeError:
        binary = b64encode(signal.payload).decode()
    return WaitSignal(
        signal.signal_id,
        signal.signal_name,
        signal.signal_category,
        signal.source_type,
        signal.source_identity,
        signal.correlation_id,
        signal.accepted_at,
        signal.payload_encoding,
        payload=text,
        payload_base64=binary,
    )
