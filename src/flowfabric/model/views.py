"""Signals and steps as handlers and readers see them."""

from __future__ import annotations

from msgspec import Struct

from flowfabric.model.records import Signal, Step


class SignalView(Struct, frozen=True):
    """A signal as the resumed handler sees it."""

    signal_id: str
    signal_name: str
    signal_category: str
    source_type: str
    source_identity: str
    correlation_id: str
    accepted_at: int
    payload: bytes
    payload_encoding: str


def signal_view(signal: Signal) -> SignalView:
    """Show a signal to the handler that waited for it."""
    return SignalView(
        signal.signal_id,
        signal.signal_name,
        signal.signal_category,
        signal.source_type,
        signal.source_identity,
        signal.correlation_id,
        signal.accepted_at,
        signal.payload,
        signal.payload_encoding,
    )


class StepView(Struct, frozen=True):
    """A stored step result."""

    name: str
    call_index: int
    at: int
    encoding: str
    result: bytes


def step_view(each: Step) -> StepView:
    """Show a stored step."""
    return StepView(each.name, each.call_index, each.at, each.encoding, each.result)


class StepHead(Struct, frozen=True):
    """A stored step without its result."""

    name: str
    call_index: int
    at: int
    encoding: str
    size: int
    """How many bytes its result has."""


def head_of(each: Step) -> StepHead:
    """Say of a step all but its result."""
    return StepHead(each.name, each.call_index, each.at, each.encoding, len(each.result))
