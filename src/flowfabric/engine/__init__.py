"""What happens by itself, and the waiting that sits on the caller's side of the stores."""

from flowfabric.engine.engine import Engine
from flowfabric.engine.steps import every_step
from flowfabric.engine.timers import Timers
from flowfabric.engine.waiting import (
    claim_by_looking,
    claim_now,
    claim_when_ready,
    tail_when_ready,
    wait_until_ended,
)
from flowfabric.engine.waitpoints import every_waitpoint

__all__ = [
    "Engine",
    "Timers",
    "claim_by_looking",
    "claim_now",
    "claim_when_ready",
    "every_step",
    "every_waitpoint",
    "tail_when_ready",
    "wait_until_ended",
]
