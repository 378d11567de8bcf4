"""What is counted."""

from __future__ import annotations

import asyncio
import builtins
import sys
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from flowfabric.server.observe import metrics as module
from flowfabric.server.observe.metrics import ServerMetrics
from flowfabric.server.server import Server
from flowfabric.server.settings import Settings
from flowfabric.storage.memory import MemoryStore
from support.server import Api
from support.serving import Serve
from support.work import act, claim, create, path

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def scrape(api: Api) -> Samples:
    reply = await api.get("/metrics")
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = text_string_to_metric_families(reply.raw.decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((name, tuple(sorted(labels.items()))), 0.0)


async def test_requests_are_counted_by_template(api: Api) -> None:
    execution_id = await create(api)
    for _ in range(2):
        await api.get(path(execution_id, "state"))
    await api.get("/no/such/thing")
    await api.call("BREW", "/healthz")
    samples = await scrape(api)
    route = {"method": "GET", "path": "/v1/executions/{id}/state", "status": "200"}
    assert value(samples, "ff_http_requests_total", **route) == 2
    assert value(samples, "ff_http_request_duration_seconds_count", **route) == 2
    assert value(samples, "ff_http_request_duration_seconds_bucket", **route, le="10.0") == 2
    unknown = {"method": "GET", "path": "unknown", "status": "404"}
    assert value(samples, "ff_http_requests_total", **unknown) == 1
    assert execution_id not in str(samples)
    assert not any(name.endswith("_created") for name, _ in samples)


async def test_refusals_are_counted_too(serve: Serve) -> None:
    api = await serve(api_token="t")
    await api.get("/v1/lanes")
    refused = {"method": "GET", "path": "/v1/lanes", "status": "401"}
    assert value(await scrape(api), "ff_http_requests_total", **refused) == 1


async def test_work_is_counted_by_lane(api: Api) -> None:
    for _ in range(4):
        await create(api, lane_id="gpu")
    done, failed, cancelled = [await claim(api, "gpu") for _ in range(3)]
    await act(api, done, "renew", lease_ttl_ms=30_000)
    await api.post(path(done["execution_id"], "renew"), {"fence": failed["fence"], "lease_ttl_ms": 30_000})
    await act(api, done, "complete")
    await act(api, failed, "fail", reason="broken")
    await act(api, cancelled, "cancel", reason="enough")
    samples = await scrape(api)
    assert value(samples, "ff_claim_from_grant_duration_seconds_count", lane="gpu") == 3
    assert value(samples, "ff_lease_renewal_total", outcome="ok") == 1
    assert value(samples, "ff_lease_renewal_total", outcome="error") == 1
    outcomes = {
        o: value(samples, "ff_attempt_outcome_total", lane="gpu", outcome=o)
        for o in ("ok", "error", "cancelled", "retry")
    }
    assert outcomes == {"ok": 1, "error": 1, "cancelled": 1, "retry": 0}
    assert value(samples, "ff_lane_depth", lane="gpu", state="waiting") == 1
    assert value(samples, "ff_lane_depth", lane="gpu", state="completed") == 1
    assert 0 <= value(samples, "ff_lane_oldest_waiting_seconds", lane="gpu") < 60
    assert value(samples, "ff_scanner_cycle_total", scanner="timers") >= 1


async def test_classic_claims_are_timed_whatever_comes_of_them(api: Api) -> None:
    await create(api, lane_id="old")
    body = {"lane_id": "old", "worker_instance_id": "w-1", "grant_ttl_ms": 5_000}
    assert [(await api.post("/v1/workers/w/claim", body)).status for _ in range(2)] == [200, 204]
    samples = await scrape(api)
    assert value(samples, "ff_claim_from_grant_duration_seconds_count", lane="old") == 2


async def test_every_name_that_dashboards_ask_for_is_there(api: Api) -> None:
    await create(api)
    task = await claim(api)
    await act(api, task, "renew", lease_ttl_ms=30_000)
    await act(api, task, "complete")
    names = {name for name, _ in await scrape(api)}
    assert names >= {
        "ff_http_requests_total",
        "ff_http_request_duration_seconds_bucket",
        "ff_scanner_cycle_total",
        "ff_scanner_cycle_duration_seconds_bucket",
        "ff_claim_from_grant_duration_seconds_bucket",
        "ff_lease_renewal_total",
        "ff_attempt_outcome_total",
        "ff_worker_at_capacity_total",
        "ff_shutdown_timeout_total",
        "ff_lane_depth",
        "ff_lane_oldest_waiting_seconds",
        "ff_feed_lag_seconds_bucket",
    }


async def test_configured_lanes_are_shown_before_their_first_use(serve: Serve) -> None:
    api = await serve(settings=Settings(lanes=("default", "slow")))
    assert value(await scrape(api), "ff_lane_oldest_waiting_seconds", lane="slow") == 0.0
    assert ("ff_lane_oldest_waiting_seconds", (("lane", "slow"),)) in await scrape(api)
    lanes = (await api.get("/v1/lanes")).json["lanes"]
    assert [(lane["lane_id"], lane["counts"]) for lane in lanes] == [("default", {}), ("slow", {})]


async def test_work_that_another_server_handed_out_is_counted_in_its_lane(serve: Serve) -> None:
    one = await serve()
    other = await serve(store=one.store)
    await create(one, lane_id="far")
    await act(other, await claim(one, "far"), "complete")
    assert value(await scrape(other), "ff_attempt_outcome_total", lane="far", outcome="ok") == 1


async def test_a_caller_may_bring_a_registry(serve: Serve) -> None:
    registry = CollectorRegistry()
    api = await serve(registry=registry)
    await api.get("/healthz")
    labels = {"method": "GET", "path": "/healthz", "status": "200"}
    assert registry.get_sample_value("ff_http_requests_total", labels) == 1


def test_lanes_beyond_a_number_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LANES", 2)
    counted = ServerMetrics()
    counted.claimed(("a", "b", "c", "d"), 0.1)
    lanes = {
        sample.labels["lane"]
        for family in counted.registry.collect()
        for sample in family.samples
        if "lane" in sample.labels
    }
    assert lanes == {"a", "b", "OTHER"}


def test_old_work_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 2)
    counted = ServerMetrics()
    for name in "abc":
        counted.remember(name, "lane")
    assert list(counted._lane_of) == ["b", "c"]


async def test_without_the_library_the_rest_works(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("prometheus_client"):
            raise ImportError(name)
        return plain(name, *rest, **more)

    monkeypatch.delitem(sys.modules, "flowfabric.server.observe.metrics")
    monkeypatch.setattr(builtins, "__import__", without)
    server = Server(MemoryStore())
    assert server.metrics is None
    server.observe("GET", "/healthz", 200, 0.1)
    with pytest.raises(ImportError, match=r"pip install .*\[server\]"):
        Server(MemoryStore(), registry=object())


async def test_the_lag_of_the_feed_is_measured(api: Api) -> None:
    async with api.server.live.feed.following():
        await create(api)
        async with asyncio.timeout(5):
            while not value(await scrape(api), "ff_feed_lag_seconds_count"):  # noqa: ASYNC110
                await asyncio.sleep(0)
