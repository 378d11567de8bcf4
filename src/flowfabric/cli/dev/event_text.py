"""Describe the events of an execution in a few words, for `ff dev`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from flowfabric.model.records import Event


def _worker(event: Event) -> str:
    return dict(event.details).get("worker_id", event.actor)


_TEXTS: Final[dict[str, tuple[str, Callable[[Event], str]]]] = {
    "created": ("", lambda _: "submitted"),
    "claimed": ("cyan", lambda event: f"claimed by {event.actor}"),
    "step": ("", lambda event: f"step {dict(event.details)['name']} stored"),
    "completed": ("green", lambda _: "completed"),
    "failed": ("red", lambda event: f"failed: {event.reason}"),
    "retry_scheduled": ("yellow", lambda event: f"failed ({event.reason}), will be tried again"),
    "promoted": ("", lambda _: "its time has come, waiting for a worker"),
    "suspended": ("magenta", lambda _: "suspended: the lease is given back, no worker is kept busy"),
    "signal": ("magenta", lambda event: f"signal {dict(event.details)['signal_name']} accepted"),
    "resumed": ("magenta", lambda _: "may go on, waiting for a worker"),
    "resumed_claim": ("cyan", lambda event: f"resumed by {event.actor}"),
    "lease_expired": ("red", lambda event: f"the lease of {_worker(event)} expired"),
    "reclaimed": ("yellow", lambda event: f"reclaimed by {event.actor}"),
}
"""The colour and the text of each type of event."""


def describe_event(event: Event) -> tuple[str, str]:
    """Return the text of an event and its colour; an event without a text is called by its type."""
    colour, text = _TEXTS.get(event.event, ("", lambda event: event.event))
    return text(event), colour
