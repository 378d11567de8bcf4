"""Middleware around store calls and handlers: rate limit, circuit breaker, tracing, metrics, and your own."""

from flowfabric.worker.layers.base import Layer
from flowfabric.worker.layers.circuit_breaker import CircuitBreaker, CircuitOpen
from flowfabric.worker.layers.layered_store import layered
from flowfabric.worker.layers.metrics import Metrics, Sink, category_of
from flowfabric.worker.layers.rate_limit import RateLimit
from flowfabric.worker.layers.tracing import Tracing

__all__ = [
    "CircuitBreaker",
    "CircuitOpen",
    "Layer",
    "Metrics",
    "RateLimit",
    "Sink",
    "Tracing",
    "category_of",
    "layered",
]
