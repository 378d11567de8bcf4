"""What a side of scenario 1 took and cost."""

from __future__ import annotations

import time
from typing import NamedTuple

from bench.measures import client_cpu_seconds
from bench.places import Place
from bench.servers import server_cpu_seconds
from bench.settings import Report


class Span(NamedTuple):
    """How long something took, and what it cost."""

    seconds: float
    client_seconds: float
    server_seconds: float


class Found(NamedTuple):
    """One side of one run."""

    tasks: int
    submit: Span
    drain: Span

    def report(self) -> Report:
        """Rates per second, and microseconds of processor time per task, submit included."""
        both = self.submit.seconds + self.drain.seconds
        client = self.submit.client_seconds + self.drain.client_seconds
        server = self.submit.server_seconds + self.drain.server_seconds
        return {
            "submit_per_s": round(self.tasks / self.submit.seconds),
            "drain_per_s": round(self.tasks / self.drain.seconds),
            "end_to_end_per_s": round(self.tasks / both),
            "client_us": round(client / self.tasks * 1e6, 1),
            "client_drain_us": round(self.drain.client_seconds / self.tasks * 1e6, 1),
            "server_us": round(server / self.tasks * 1e6, 1),
            "server_drain_us": round(self.drain.server_seconds / self.tasks * 1e6, 1),
        }


class Meter:
    """Measures one span, with the processor time of this process and of the server."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._begin = self._now()

    def _now(self) -> tuple[float, float, float]:
        return time.perf_counter(), client_cpu_seconds(), server_cpu_seconds(self._place.url)

    def stop(self) -> Span:
        """Say what has passed since the beginning."""
        return Span(*(end - begin for begin, end in zip(self._begin, self._now(), strict=True)))
