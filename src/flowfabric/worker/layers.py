"""Layers around store calls and handlers: rate limit, circuit breaker, tracing, metrics, and your own.

A layer is told before and after every call to the store, whatever the operation: a call has the name of its command in
small letters (`claim`, `complete`, `put_step`, `describe`). Before a call it may refuse it. Renewals come from a
thread of their own, so a layer must not mind being called from two threads.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar

from msgspec.structs import replace

from flowfabric.model.contracts.access import ApprovalLink, LinkRequest
from flowfabric.model.contracts.base import Command
from flowfabric.model.contracts.lease import Claim, Claimed
from flowfabric.model.contracts.reads import Question, StreamPage, TailStream
from flowfabric.model.errors import (
    Conflict,
    FlowFabricError,
    Infrastructure,
    InvalidInput,
    NotFound,
    RetryLater,
    Severity,
    Unreachable,
)
from flowfabric.model.ids import Partitions
from flowfabric.model.records import Execution
from flowfabric.storage.base import Commands, StoreTraits, Subscription, Waits

R = TypeVar("R")
log = logging.getLogger("flowfabric.calls")

Run = Callable[[], Awaitable[Any]]
_WORDS: Final = re.compile(r"(?<!^)(?=[A-Z])")


class Layer:
    """Base of layers: does nothing. Override what you need, and give it to `app.worker(layers=[…])`.

    ::

        class Slow(Layer):
            def after(self, method, seconds, error):
                if seconds > 1:
                    print(method, "took", seconds)

    It may be called from two threads: leases are renewed from one of their own.
    """

    def before(self, method: str) -> None:
        """Look at a call that is about to be made; raise a `FlowFabricError` to refuse it."""

    def after(self, method: str, seconds: float, error: FlowFabricError | None) -> None:
        """Look at a call that was made or refused, how long it took, and what refused it."""

    async def handle(self, kind: str, execution_id: str, run: Run) -> Any:  # noqa: ARG002
        """Run a handler: override it to do something around every one, and return what `run()` returns."""
        return await run()


@lru_cache(maxsize=256)
def method_of(command: type[Command[Any]]) -> str:
    """Name the call of a command: `PutStep` is `put_step`."""
    return _WORDS.sub("_", command.__name__).lower()


def layered(store: Commands, layers: Sequence[Layer]) -> Commands:
    """Put layers around a store; the first one is the outermost."""
    for layer in reversed(layers):
        store = LayeredWaits(store, layer) if isinstance(store, Waits) else Layered(store, layer)
    return store


class Layered:
    """A store with one layer around it."""

    def __init__(self, store: Commands, layer: Layer) -> None:
        self._store = store
        self._layer = layer

    @property
    def partitions(self) -> Partitions:
        """How ids are spread."""
        return self._store.partitions

    @property
    def traits(self) -> StoreTraits:
        """What the store can do; an engine runs on the store itself, without layers."""
        return replace(self._store.traits, is_direct=False)

    async def apply(self, command: Command[R]) -> R:
        """Decide one command."""
        return await self._call(type(command), lambda: self._store.apply(command))

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Decide several commands; those that the layer refuses are answered in place."""
        replies: list[Any] = [self._refusal(command) for command in commands]
        passed = [place for place, refusal in enumerate(replies) if refusal is None]
        start = time.perf_counter()
        answers: list[Any] = []
        if passed:
            try:
                answers = await self._store.apply_many([commands[place] for place in passed])
            except FlowFabricError as error:
                for place in passed:
                    self._layer.after(method_of(type(commands[place])), time.perf_counter() - start, error)
                raise
        seconds = time.perf_counter() - start
        for place, answer in zip(passed, answers, strict=True):
            replies[place] = answer
            refusal = answer if isinstance(answer, FlowFabricError) else None
            self._layer.after(method_of(type(commands[place])), seconds, refusal)
        return replies

    async def read(self, question: Question[R]) -> R:
        """Answer a question."""
        return await self._call(type(question), lambda: self._store.read(question))

    def subscribe(self, topics: Iterable[str]) -> AbstractAsyncContextManager[Subscription]:
        """Listen to topics; listening is no call."""
        return self._store.subscribe(topics)

    async def close(self) -> None:
        """Let everything go."""
        await self._store.close()

    def _refusal(self, command: Command[Any]) -> FlowFabricError | None:
        method = method_of(type(command))
        try:
            self._layer.before(method)
        except FlowFabricError as error:
            self._layer.after(method, 0.0, error)
            return error
        return None

    async def _call(self, kind: type[Command[Any]], call: Callable[[], Awaitable[R]]) -> R:
        method = method_of(kind)
        try:
            self._layer.before(method)
        except FlowFabricError as error:
            self._layer.after(method, 0.0, error)
            raise
        start = time.perf_counter()
        try:
            reply = await call()
        except FlowFabricError as error:
            self._layer.after(method, time.perf_counter() - start, error)
            raise
        self._layer.after(method, time.perf_counter() - start, None)
        return reply


class LayeredWaits(Layered):
    """The same around a connection at whose other end somebody waits."""

    _store: Any

    async def claim_within(self, claim: Claim, wait_ms: int) -> Claimed:
        """Claim; when there is nothing, wait for something."""
        return await self._call(Claim, lambda: self._store.claim_within(claim, wait_ms))

    async def tail_within(self, question: TailStream, wait_ms: int) -> StreamPage:
        """Read what follows a cursor; when there is nothing, wait for something."""
        return await self._call(TailStream, lambda: self._store.tail_within(question, wait_ms))

    async def make_link(self, link: LinkRequest) -> ApprovalLink:
        """Make an approval link, where the connection offers that."""
        made: ApprovalLink = await self._call(_Link, lambda: self._store.make_link(link))
        return made

    async def end_within(self, execution_id: str, wait_ms: int) -> Execution:
        """Return the execution when it has ended, or as it is when the time is over."""
        return await self._call(_End, lambda: self._store.end_within(execution_id, wait_ms))


class _End(Command[Execution], frozen=True, kw_only=True):
    """Only a name: the wait for an end, which is no command."""


class _Link(Command[str], frozen=True, kw_only=True):
    """Only a name: the making of a link, which is no command."""


class RateLimit(Layer):
    """At most so many calls in a second: a bucket that holds one second's worth of calls.

    `RateLimit(100)` is one bucket for everything. With `buckets` and a `classify` that names the bucket of a method,
    each has its own; what belongs to none shares the bucket of `default` calls a second, or has no limit without one.
    """

    def __init__(
        self,
        default: float | None = None,
        *,
        buckets: Mapping[str, float] | None = None,
        classify: Callable[[str], str] = lambda _: "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rates = {name: max(1.0, rate) for name, rate in (buckets or {}).items()}
        if default is not None:
            self._rates[""] = max(1.0, default)
        self._classify = classify
        self._clock = clock
        self._lock = threading.Lock()
        self._levels = {name: (rate, clock()) for name, rate in self._rates.items()}

    def before(self, method: str) -> None:
        """Take a token, or refuse."""
        bucket = self._classify(method)
        if bucket not in self._rates:
            bucket = ""
        rate = self._rates.get(bucket)
        if rate is None:
            return
        with self._lock:
            level, at = self._levels[bucket]
            now = self._clock()
            level = min(rate, level + (now - at) * rate)
            self._levels[bucket] = (level - 1 if level >= 1 else level, now)
        if level < 1:
            raise InvalidInput(f"rate-limit: method {method} bucket {bucket or 'default'} exhausted")


class CircuitBreaker(Layer):
    """After so many failures of the transport in a row, calls fail at once until the cool-down is over.

    Then one call is let through: when its transport works, whatever the store answers, all are.
    """

    def __init__(
        self, threshold: int = 5, cool_down: float = 30.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._threshold = threshold
        self._cool_down = cool_down
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._opened: float | None = None
        self._trial: float | None = None
        """When the one call was let through whose end decides; one that was cancelled has none, and is replaced."""

    def before(self, method: str) -> None:  # noqa: ARG002
        """Refuse while it is open, but for one trial after the cool-down."""
        with self._lock:
            if self._opened is None:
                return
            now = self._clock()
            if now - (self._opened if self._trial is None else self._trial) >= self._cool_down:
                self._trial = now
                return
        raise CircuitOpen

    def after(self, method: str, seconds: float, error: FlowFabricError | None) -> None:  # noqa: ARG002
        """Count failures of the transport; anything else closes the circuit."""
        if isinstance(error, CircuitOpen):
            return
        # What the store refuses because it has too much to do is an answer, too.
        failed = isinstance(error, Infrastructure) and error.retryable
        with self._lock:
            if self._opened is not None:
                self._trial = None
                self._opened = self._clock() if failed else None
                self._failures = 0
            elif failed:
                self._failures += 1
                if self._failures >= self._threshold:
                    self._opened = self._clock()
            elif error is None:
                self._failures = 0


class CircuitOpen(Unreachable):
    """The circuit breaker let no call through."""

    message = "circuit open: the store failed too often; tried again after the cool-down"


class Tracing(Layer):
    """Writes a line for every call to the log `flowfabric.calls`; with a tracer of OpenTelemetry there are spans.

    Each handler has one (`task <kind>`), and each call (`ff_sdk.backend`), under that of its handler if it has one.
    """

    def __init__(self, level: int = logging.INFO, tracer: Any = None) -> None:
        self._level = level
        self._tracer = tracer

    def after(self, method: str, seconds: float, error: FlowFabricError | None) -> None:
        """Write it."""
        micros = round(seconds * 1_000_000)
        log.log(
            self._level, "engine_backend.call method=%s elapsed_us=%d ok=%s", method, micros, error is None,
            extra={"method": method, "elapsed_us": micros, "ok": error is None},
        )  # fmt: skip
        if self._tracer is not None:
            end = time.time_ns()
            span = self._tracer.start_span(
                "ff_sdk.backend",
                start_time=end - micros * 1_000,
                attributes={"method": method, "ok": error is None},
            )
            span.add_event("engine_backend.call", {"elapsed_us": micros, "ok": error is None}, end)
            span.end(end)

    async def handle(self, kind: str, execution_id: str, run: Callable[[], Awaitable[Any]]) -> Any:
        """Run a handler inside a span of its own, under which its calls stand."""
        if self._tracer is None:
            return await run()
        names = {"kind": kind, "execution_id": execution_id}
        with self._tracer.start_as_current_span(f"task {kind}", attributes=names):
            return await run()


class Sink(Protocol):
    """Where metrics go."""

    def record(self, method: str, seconds: float, category: str) -> None:
        """Take one call; the category is empty when it went well."""


class Metrics(Layer):
    """Gives every call to a `Sink`, with its name, its time, and the category of its error."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def after(self, method: str, seconds: float, error: FlowFabricError | None) -> None:
        """Record it."""
        self._sink.record(method, seconds, "" if error is None else category_of(error))


_CATEGORIES: Final[tuple[tuple[type[FlowFabricError], str], ...]] = (
    (NotFound, "not_found"),
    (InvalidInput, "validation"),
    (RetryLater, "contention"),
    (Conflict, "conflict"),
    (Unreachable, "transport"),
    (Infrastructure, "unavailable"),
)


def category_of(error: FlowFabricError) -> str:
    """Put an error into one of the few classes that metrics count."""
    if error.severity is Severity.BUG:
        return "bug"
    if error.code in {"stale_lease", "lease_expired", "lease_revoked", "execution_not_active"}:
        return "state"
    return next((name for kind, name in _CATEGORIES if isinstance(error, kind)), "unknown")
