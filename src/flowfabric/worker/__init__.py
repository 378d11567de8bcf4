"""Workers: the runtime that runs handlers, their contexts, and the low-level API for worker loops of your own."""

from flowfabric.worker.claimed_task import ClaimedTask
from flowfabric.worker.context.children import Child
from flowfabric.worker.context.context import Context
from flowfabric.worker.context.durable_calls import WithOptions
from flowfabric.worker.context.sync_context import SyncContext
from flowfabric.worker.context.sync_durable_calls import SyncChild, SyncWithOptions
from flowfabric.worker.context.waits import Signal, Waitpoint
from flowfabric.worker.external_signals import verify_and_deliver
from flowfabric.worker.faults import (
    LeaseLost,
    Permanent,
    Retry,
    StepMismatch,
    StepTimeout,
    TaskConsumed,
    WaitTimeout,
)
from flowfabric.worker.handlers import Handler, Resolver, WorkerSettings
from flowfabric.worker.layers import CircuitBreaker, Layer, Metrics, RateLimit, Sink, Tracing
from flowfabric.worker.runtime import Runtime
from flowfabric.worker.worker import Worker

__all__ = [
    "Child",
    "CircuitBreaker",
    "ClaimedTask",
    "Context",
    "Handler",
    "Layer",
    "LeaseLost",
    "Metrics",
    "Permanent",
    "RateLimit",
    "Resolver",
    "Retry",
    "Runtime",
    "Signal",
    "Sink",
    "StepMismatch",
    "StepTimeout",
    "SyncChild",
    "SyncContext",
    "SyncWithOptions",
    "TaskConsumed",
    "Tracing",
    "WaitTimeout",
    "Waitpoint",
    "WithOptions",
    "Worker",
    "WorkerSettings",
    "verify_and_deliver",
]
