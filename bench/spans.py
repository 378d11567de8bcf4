"""Measure how long a part of a run takes and how much processor time it costs."""

from __future__ import annotations

import time
from typing import NamedTuple

from bench.measures import client_cpu_seconds
from bench.places import Place
from bench.servers import server_cpu_seconds
from bench.settings import Report


class Span(NamedTuple):
    """Elapsed time, and the processor time that this process and the Valkey servers used in it."""

    seconds: float
    client_seconds: float
    server_seconds: float

    def cost(self, count: int) -> Report:
        """Return microseconds of processor time per task, round or request."""
        return {
            "client_us": round(self.client_seconds / count * 1e6, 1),
            "server_us": round(self.server_seconds / count * 1e6, 1),
        }


class Found(NamedTuple):
    """The spans of one side of one run."""

    tasks: int
    submit: Span
    drain: Span

    def report(self) -> Report:
        """Return rates per second and microseconds of processor time per task, including submitting."""
        both = Span(*map(sum, zip(self.submit, self.drain, strict=True)))
        return {
            "submit_per_s": round(self.tasks / self.submit.seconds),
            "drain_per_s": round(self.tasks / self.drain.seconds),
            "end_to_end_per_s": round(self.tasks / both.seconds),
            **both.cost(self.tasks),
            "client_drain_us": round(self.drain.client_seconds / self.tasks * 1e6, 1),
            "server_drain_us": round(self.drain.server_seconds / self.tasks * 1e6, 1),
        }


class Meter:
    """Measures one span from its creation to `stop`."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._begin = self._now()

    def _now(self) -> tuple[float, float, float]:
        return time.perf_counter(), client_cpu_seconds(), server_cpu_seconds(self._place.url)

    def stop(self) -> Span:
        """Return what has passed since the meter was created."""
        return Span(*(end - begin for begin, end in zip(self._begin, self._now(), strict=True)))
