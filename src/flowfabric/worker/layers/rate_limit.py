"""A layer that limits the rate of store calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from flowfabric.model.errors import InvalidInput
from flowfabric.worker.layers.base import Layer


class RateLimit(Layer):
    """Refuses calls above a number per second: a token bucket that holds one second's worth of calls.

    `RateLimit(100)` is one bucket for every call. With `buckets`, and a `classify` that returns the bucket of a method,
    each bucket has a rate of its own. Methods of no bucket share one of `default` calls per second, or have no limit
    without a `default`.
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
        """Take a token from the bucket of the method; raise `InvalidInput` if it is empty."""
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
