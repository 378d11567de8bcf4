"""A layer that stops calling a store that keeps failing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from flowfabric.model.errors import FlowFabricError, Infrastructure, Unreachable
from flowfabric.worker.layers.base import Layer


class CircuitBreaker(Layer):
    """Refuses calls for `cool_down` seconds after `threshold` transport failures in a row.

    Then one trial call is let through. If the store answers it, whatever the answer, all calls are let through again.
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
        """When the trial call was let through. A cancelled trial never ends; another call replaces it."""

    def before(self, method: str) -> None:  # noqa: ARG002
        """Raise `CircuitOpen` while the circuit is open, except for one trial after the cool-down."""
        with self._lock:
            if self._opened is None:
                return
            now = self._clock()
            if now - (self._opened if self._trial is None else self._trial) >= self._cool_down:
                self._trial = now
                return
        raise CircuitOpen

    def after(self, method: str, seconds: float, error: FlowFabricError | None) -> None:  # noqa: ARG002
        """Count transport failures; anything else closes the circuit."""
        if isinstance(error, CircuitOpen):
            return
        # A store that refuses a call because it is overloaded has answered.
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
    """The circuit breaker refused the call."""

    message = "circuit open: the store failed too often; tried again after the cool-down"
