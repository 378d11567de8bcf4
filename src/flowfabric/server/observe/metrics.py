"""What is counted and timed, in the form that Prometheus reads."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from flowfabric.storage.extras import install_command

try:
    from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.multiprocess import MultiProcessCollector
    from prometheus_client.registry import Collector
except ImportError as error:  # pragma: no cover - seen only where the extra is not installed
    raise ImportError(f"metrics need prometheus_client: {install_command('server')}") from error

from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.lane import LaneView, ListLanes
from flowfabric.model.operations.read import GetExecution
from flowfabric.server.observe.sharing import shared_folder
from flowfabric.storage.base import Upkeep

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"})
MAX_LANES: Final = 200
"""Lanes are named by users: beyond this many, they are counted together."""
OTHER: Final = "OTHER"
REMEMBERED: Final = 10_000
LANES_SECONDS: Final = 5.0


class ServerMetrics:
    """Everything that one server counts."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = CollectorRegistry() if registry is None else registry
        self._http = _counter(self, "ff_http_requests", "Requests answered.", "method", "path", "status")
        self._http_seconds = _histogram(
            self, "ff_http_request_duration_seconds", "Time to answer.", "method", "path", "status"
        )
        self._claims = _histogram(
            self, "ff_claim_from_grant_duration_seconds", "Time of one claim in the store.", "lane"
        )
        self._renewals = _counter(self, "ff_lease_renewal", "Renewals of leases.", "outcome")
        self._attempts = _counter(self, "ff_attempt_outcome", "How attempts ended.", "lane", "outcome")
        self._passes = _counter(self, "ff_scanner_cycle", "Passes of the engine.", "scanner")
        self._pass_seconds = _histogram(
            self, "ff_scanner_cycle_duration_seconds", "Time of one pass of the engine.", "scanner"
        )
        self._feed_lag = _histogram(
            self, "ff_feed_lag_seconds", "Age of a change when the live feed tells of it."
        )
        self._late = _counter(self, "ff_shutdown_timeout", "Steps of a shutdown that did not end in time.")
        _counter(self, "ff_worker_at_capacity", "Times that a worker had no room; counted by workers.")
        self._depths = _Lanes()
        self.registry.register(self._depths)
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._lanes: set[str] = set()
        self._lane_of: OrderedDict[str, str] = OrderedDict()
        self._lanes_read_at = float("-inf")

    def ended_late(self) -> None:
        """Count a step of a shutdown that was given up."""
        self._late.inc()

    def request(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request under the template of its route."""
        series = self._series.get((method, path, status))
        if series is None:
            labels = (method if method in METHODS else OTHER, path, str(status))
            series = (self._http.labels(*labels), self._http_seconds.labels(*labels))
            if method in METHODS:  # others are the caller's own words, and without end
                self._series[method, path, status] = series
        series[0].inc()
        series[1].observe(seconds)

    def claimed(self, lanes: tuple[str, ...], seconds: float) -> None:
        """Count a claim for every lane that it asked for."""
        for lane in lanes:
            self._claims.labels(self._lane(lane)).observe(seconds)

    def renewed(self, *, ok: bool) -> None:
        """Count a renewal."""
        self._renewals.labels("ok" if ok else "error").inc()

    def passed(self, scanner: str, seconds: float) -> None:
        """Count a pass of the engine."""
        self._passes.labels(scanner).inc()
        self._pass_seconds.labels(scanner).observe(seconds)

    def told(self, seconds: float) -> None:
        """Count a page of the live feed, and how old its oldest change was."""
        self._feed_lag.observe(max(0.0, seconds))

    def remember(self, execution_id: str, lane_id: str) -> None:
        """Note the lane of work that was handed out: its end names only the execution."""
        self._lane_of[execution_id] = lane_id
        if len(self._lane_of) > REMEMBERED:
            self._lane_of.popitem(last=False)

    async def ended(self, store: Upkeep, execution_id: str, outcome: str) -> None:
        """Count the end of an attempt; work that another server handed out is looked up."""
        lane = self._lane_of.get(execution_id)
        if lane is None:
            try:
                lane = (await store.read(GetExecution(execution_id=execution_id))).lane_id
            except FlowFabricError:
                lane = "unknown"
            else:
                self.remember(execution_id, lane)
        self._attempts.labels(self._lane(lane), outcome).inc()

    async def text(self, store: Upkeep, lanes: tuple[str, ...] = ()) -> bytes:
        """Write everything for all processes of the port: lanes, the configured ones too, as of a few seconds ago."""
        if time.monotonic() - self._lanes_read_at >= LANES_SECONDS:
            self._lanes_read_at = time.monotonic()
            known = {lane.lane_id: lane for lane in await store.read(ListLanes())}
            configured = {name: LaneView(name, (), 0, 0, "") for name in lanes}
            self._depths.show((configured | known).values(), store.now())
        return generate_latest(_WithoutBirthdays(self._everybody()))

    def _everybody(self) -> CollectorRegistry:
        folder = shared_folder()
        if not folder:
            return self.registry
        every = CollectorRegistry()
        MultiProcessCollector(every, folder)  # type: ignore[no-untyped-call]
        every.register(self._depths)
        return every

    def _lane(self, lane: str) -> str:
        if lane not in self._lanes:
            if len(self._lanes) >= MAX_LANES:
                return OTHER
            self._lanes.add(lane)
        return lane


class _Lanes(Collector):
    """What is in the lanes. It is read from the store, so one process tells it for all."""

    def __init__(self) -> None:
        self._families: tuple[GaugeMetricFamily, ...] = ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return what was read last."""
        yield from self._families

    def show(self, lanes: Iterable[LaneView], now: int) -> None:
        """Take what was read just now."""
        depth = GaugeMetricFamily("ff_lane_depth", "Executions of a lane by state.", labels=("lane", "state"))
        oldest = GaugeMetricFamily(
            "ff_lane_oldest_waiting_seconds",
            "Since when the oldest waiting execution waits.",
            labels=("lane",),
        )
        for lane in islice(lanes, MAX_LANES):
            for state, count in lane.counts:
                depth.add_metric((lane.lane_id, str(state)), count)
            age = (now - lane.oldest_waiting_at) / 1000 if lane.oldest_waiting_at else 0.0
            oldest.add_metric((lane.lane_id,), max(0.0, age))
        self._families = (depth, oldest)


class _WithoutBirthdays:
    """A registry without the `_created` series, which double every counter and tell nothing here."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Any]:
        for family in self._registry.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            if family.samples:
                yield family


def _counter(metrics: ServerMetrics, name: str, text: str, *labels: str) -> Counter:
    return Counter(name, text, labels, registry=metrics.registry)


def _histogram(metrics: ServerMetrics, name: str, text: str, *labels: str) -> Histogram:
    return Histogram(name, text, labels, registry=metrics.registry, buckets=BUCKETS)
