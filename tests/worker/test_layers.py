"""Layers around store calls and handlers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from flowfabric.model.errors import FlowFabricError, InvalidInput, NotFound, ResourceExhausted, Unreachable
from flowfabric.model.operations.read import Describe
from flowfabric.worker import CircuitBreaker, Layer, Metrics, RateLimit, Runtime, Tracing, WorkerSettings
from flowfabric.worker.layers import CircuitOpen, category_of, layered
from support.working import Context, Place, table


class Seen(Layer):
    def __init__(self) -> None:
        self.calls: list[tuple[str, bool]] = []
        self.handled: list[str] = []

    def after(self, method: str, seconds: float, error: FlowFabricError | None) -> None:
        self.calls.append((method, error is None))

    async def handle(self, kind: str, execution_id: str, run: Callable[[], Awaitable[Any]]) -> Any:
        self.handled.append(f"before {kind}")
        value = await run()
        self.handled.append(f"after {kind}")
        return [value]


async def test_a_layer_sees_every_call_and_every_handler(place: Place) -> None:
    async def work(ctx: Context) -> int:
        await ctx.emit("token", "x")
        return await ctx.step("one", int, "1")

    seen = Seen()
    settings = WorkerSettings(lease_ttl="10s")
    async with Runtime(place.store, table(work), settings, url=place.url, layers=(seen,)):
        assert await place.result(await place.submit("work")) == [1]
    assert seen.handled == ["before work", "after work"]
    wanted = {"register_worker", "claim", "put_step", "append_frames", "complete", "mark_worker_dead"}
    assert wanted <= {method for method, good in seen.calls if good}


async def test_what_a_step_emits_is_stored_before_the_step(place: Place) -> None:
    class Order(Layer):
        def __init__(self) -> None:
            self.story: list[str] = []

        def before(self, method: str) -> None:
            self.story.append(f"{method} begins")

        def after(self, method: str, seconds: float, error: FlowFabricError | None) -> None:
            self.story.append(f"{method} ends")

    async def work(ctx: Context) -> int:
        async def write() -> int:
            await ctx.emit("token", "x")
            return 1

        return await ctx.step("write", write)

    order = Order()
    settings = WorkerSettings(lease_ttl="10s")
    async with Runtime(place.store, table(work), settings, url=place.url, layers=(order,)):
        assert await place.result(await place.submit("work")) == 1
    assert order.story.index("append_frames ends") < order.story.index("put_step begins")


async def test_a_layered_store_waits_as_the_store_does(place: Place) -> None:
    traits = layered(place.store, (Layer(),)).traits
    is_server = place.url.startswith("http")
    assert (traits.waits_remotely, traits.makes_links, traits.is_direct) == (is_server, is_server, False)


async def test_a_refusal_by_a_layer_is_answered_in_place(place: Place) -> None:
    id_ = await place.submit("work")
    seen = Seen()
    store = layered(place.store, (seen, RateLimit(1, clock=lambda: 0.0)))
    question = Describe(execution_id=id_)
    await store.read(question)
    with pytest.raises(InvalidInput, match="rate-limit: method describe bucket default exhausted"):
        await store.read(question)
    (refusal,) = await store.apply_many([question])
    assert isinstance(refusal, InvalidInput)
    assert seen.calls == [("describe", True), ("describe", False), ("describe", False)]


def test_a_rate_limit_fills_again() -> None:
    now = [0.0]
    limit = RateLimit(
        buckets={"hot": 2}, classify=lambda method: "hot" if method == "claim" else "x", clock=lambda: now[0]
    )
    limit.before("claim")
    limit.before("claim")
    with pytest.raises(InvalidInput, match="bucket hot"):
        limit.before("claim")
    limit.before("complete")  # belongs to no bucket, and there is no default
    now[0] = 0.5
    limit.before("claim")


def test_a_circuit_opens_and_closes() -> None:
    now = [0.0]
    breaker = CircuitBreaker(threshold=2, cool_down=30, clock=lambda: now[0])
    fault = Unreachable()
    breaker.after("claim", 0.1, fault)
    breaker.after("claim", 0.1, NotFound())  # the store answered: counts neither way
    breaker.before("claim")
    breaker.after("claim", 0.1, fault)
    with pytest.raises(CircuitOpen):
        breaker.before("claim")
    now[0] = 30.0
    breaker.before("claim")  # the one trial
    with pytest.raises(CircuitOpen):
        breaker.before("claim")
    breaker.after("claim", 0.1, fault)
    with pytest.raises(CircuitOpen):
        breaker.before("claim")
    now[0] = 60.0
    breaker.before("claim")
    breaker.after("claim", 0.1, NotFound())
    breaker.before("claim")
    breaker.before("claim")


def test_a_trial_that_was_cancelled_does_not_keep_a_circuit_open() -> None:
    now = [0.0]
    breaker = CircuitBreaker(threshold=1, cool_down=30, clock=lambda: now[0])
    breaker.after("claim", 0.1, Unreachable())
    now[0] = 30.0
    breaker.before("claim")  # the trial, which nobody hears of again
    now[0] = 59.0
    with pytest.raises(CircuitOpen):
        breaker.before("claim")
    now[0] = 60.0
    breaker.before("claim")
    breaker.after("claim", 0.1, None)
    breaker.before("claim")


def test_a_circuit_does_not_count_what_the_store_refuses() -> None:
    breaker = CircuitBreaker(threshold=1)
    breaker.after("claim", 0.1, ResourceExhausted())
    breaker.before("claim")


async def test_tracing_and_metrics(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "flowfabric.calls")
    records: list[tuple[str, str]] = []

    class Sink:
        def record(self, method: str, seconds: float, category: str) -> None:
            records.append((method, category))

    store = layered(place.store, (Tracing(logging.DEBUG), Metrics(Sink())))
    id_ = await place.submit("work")
    await store.read(Describe(execution_id=id_))
    with pytest.raises(NotFound):
        await store.read(Describe(execution_id=id_[:-1] + ("0" if id_[-1] != "0" else "1")))
    assert records == [("describe", ""), ("describe", "not_found")]
    assert "method=describe" in caplog.text
    assert "ok=False" in caplog.text


async def test_spans_of_handlers_and_calls(place: Place) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    async def good(ctx: Context) -> int:
        return await ctx.step("one", int, "1")

    async def bad() -> None:
        raise ValueError("no")

    layer = Tracing(tracer=provider.get_tracer("test"))
    settings = WorkerSettings(lease_ttl="10s")
    async with Runtime(place.store, table(good, bad), settings, url=place.url, layers=(layer,)):
        id_ = await place.submit("good")
        await place.result(id_)
        await place.ended(await place.submit("bad"))
    spans = exporter.get_finished_spans()
    task, failed = (next(span for span in spans if span.name == f"task {kind}") for kind in ("good", "bad"))
    assert dict(task.attributes or {}) == {"kind": "good", "execution_id": id_}
    assert task.status.is_unset
    assert failed.status.description == "ValueError: no"
    (step,) = [span for span in spans if (span.attributes or {}).get("method") == "put_step"]
    assert step.name == "ff_sdk.backend"
    assert step.parent is not None
    assert task.context is not None
    assert step.parent.span_id == task.context.span_id
    assert task.start_time is not None
    assert step.start_time is not None
    assert task.start_time <= step.start_time
    (event,) = step.events
    assert (event.name, (event.attributes or {})["ok"]) == ("engine_backend.call", True)
    methods = {(span.attributes or {}).get("method") for span in spans}
    assert {"claim", "complete", "fail", "register_worker"} <= methods


async def test_calls_that_fail_have_spans_too(place: Place) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    store = layered(place.store, (Tracing(tracer=provider.get_tracer("test")),))
    id_ = await place.submit("work")
    with pytest.raises(NotFound):
        await store.read(Describe(execution_id=id_[:-1] + ("0" if id_[-1] != "0" else "1")))
    (span,) = exporter.get_finished_spans()
    assert dict(span.attributes or {}) == {"method": "describe", "ok": False}


@pytest.mark.parametrize(
    ("error", "category"),
    [(Unreachable(), "transport"), (InvalidInput(), "validation"), (NotFound(), "not_found")],
)
def test_categories(error: FlowFabricError, category: str) -> None:
    assert category_of(error) == category
