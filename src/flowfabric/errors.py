"""Every exception that a program may meet, in one place.

::

    from flowfabric.errors import InvalidInput, TaskFailed, WaitpointClosed

Refusals of stores and servers are one tree under `FlowFabricError`, whose families say what to do. Each code of the
reference has a class of its own, too, named after it: `waitpoint_closed` is `WaitpointClosed`.
"""

from flowfabric.app.errors import (
    NothingWaits,
    ResultExpired,
    SubmitRefused,
    TaskCancelled,
    TaskExpired,
    TaskFailed,
    TaskSkipped,
    UnknownTask,
)
from flowfabric.codecs import DecodeFault, EncodeFault
from flowfabric.model.errors import (
    BY_CODE,
    Conflict,
    Corruption,
    ExecutionNotActive,
    FlowFabricError,
    Infrastructure,
    InternalError,
    InvalidInput,
    LimitExceeded,
    NotFound,
    NotOffered,
    OwnershipLost,
    PartitionMismatch,
    ResourceExhausted,
    RetryLater,
    SchemaTooNew,
    Severity,
    StoreBusy,
    StoreClosed,
    StoreFull,
    StoreUnusable,
    Unauthorized,
    Unreachable,
    Unreplicated,
    from_code,
)
from flowfabric.worker.external_signals import TokenMismatch, UnknownWaitpoint
from flowfabric.worker.faults import (
    DeadlinePassed,
    Interrupted,
    LeaseLost,
    Permanent,
    ProcessCrashed,
    RemoteError,
    Retry,
    StepMismatch,
    StepResultMismatch,
    StepTimeout,
    Stopping,
    TaskConsumed,
    WaitTimeout,
    WorkerAtCapacity,
)
from flowfabric.worker.layers import CircuitOpen

__all__ = [
    "BY_CODE",
    "CircuitOpen",
    "Conflict",
    "Corruption",
    "DeadlinePassed",
    "DecodeFault",
    "EncodeFault",
    "ExecutionNotActive",
    "FlowFabricError",
    "Infrastructure",
    "InternalError",
    "Interrupted",
    "InvalidInput",
    "LeaseLost",
    "LimitExceeded",
    "NotFound",
    "NotOffered",
    "NothingWaits",
    "OwnershipLost",
    "PartitionMismatch",
    "Permanent",
    "ProcessCrashed",
    "RemoteError",
    "ResourceExhausted",
    "ResultExpired",
    "Retry",
    "RetryLater",
    "SchemaTooNew",
    "Severity",
    "StepMismatch",
    "StepResultMismatch",
    "StepTimeout",
    "Stopping",
    "StoreBusy",
    "StoreClosed",
    "StoreFull",
    "StoreUnusable",
    "SubmitRefused",
    "TaskCancelled",
    "TaskConsumed",
    "TaskExpired",
    "TaskFailed",
    "TaskSkipped",
    "TokenMismatch",
    "Unauthorized",
    "UnknownTask",
    "UnknownWaitpoint",
    "Unreachable",
    "Unreplicated",
    "WaitTimeout",
    "WorkerAtCapacity",
    "from_code",
]

_NAMED = {kind.__name__: kind for kind in BY_CODE.values()}


def __getattr__(name: str) -> type[FlowFabricError]:
    """Find the class of a code, which is made from a table and has no line of its own."""
    try:
        return _NAMED[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
