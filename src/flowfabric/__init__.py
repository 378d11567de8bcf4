"""Durable execution for Python: leases, retries, signals, streams and steps on the store you already have.

::

    from flowfabric import Context, FlowFabric

    app = FlowFabric()                       # a SQLite file; or a path, valkey://…, http://server:9090

    @app.task(retries=3)
    async def review(ctx: Context, doc: str) -> bool: ...

    run = await app.submit(review, "text")
    print(await run.result())

Below that lies the storage boundary: `open_store`, `Engine`, and the commands and questions of
`flowfabric.model.operations`.
"""

from flowfabric import errors
from flowfabric.app import (
    AttemptStarted,
    Backoff,
    Explanation,
    FlowFabric,
    Frame,
    NothingWaits,
    ResultExpired,
    Run,
    Status,
    SubmitRefused,
    Superseded,
    SyncRun,
    TaskCancelled,
    TaskExpired,
    TaskFailed,
    provided,
)
from flowfabric.client import HttpClient
from flowfabric.engine import Engine
from flowfabric.model.errors import FlowFabricError
from flowfabric.storage import open_store
from flowfabric.storage.sqlite import SqliteStore
from flowfabric.worker.context.context import Context
from flowfabric.worker.context.sync_context import SyncContext
from flowfabric.worker.context.waits import Signal, Waitpoint
from flowfabric.worker.faults import LeaseLost, Permanent, Retry, StepTimeout, WaitTimeout
from flowfabric.worker.layers import CircuitBreaker, Layer, Metrics, RateLimit, Tracing

__version__ = "0.1.0"

__all__ = [
    "AttemptStarted",
    "Backoff",
    "CircuitBreaker",
    "Context",
    "Engine",
    "Explanation",
    "FlowFabric",
    "FlowFabricError",
    "Frame",
    "HttpClient",
    "Layer",
    "LeaseLost",
    "Metrics",
    "NothingWaits",
    "Permanent",
    "RateLimit",
    "ResultExpired",
    "Retry",
    "Run",
    "Signal",
    "SqliteStore",
    "Status",
    "StepTimeout",
    "SubmitRefused",
    "Superseded",
    "SyncContext",
    "SyncRun",
    "TaskCancelled",
    "TaskExpired",
    "TaskFailed",
    "Tracing",
    "WaitTimeout",
    "Waitpoint",
    "__version__",
    "errors",
    "open_store",
    "provided",
]
