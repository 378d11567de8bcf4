"""The API of programs: the app, its tasks, and the handles of their runs."""

from flowfabric.app.app import FlowFabric
from flowfabric.app.app_worker import AppWorker
from flowfabric.app.dependencies import provided
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
from flowfabric.app.run import Run
from flowfabric.app.sync import SyncFlowFabric, SyncRun
from flowfabric.app.views import AttemptStarted, Explanation, Frame, Status, Superseded
from flowfabric.worker.calls import Call
from flowfabric.worker.options import Backoff, Options

__all__ = [
    "AppWorker",
    "AttemptStarted",
    "Backoff",
    "Call",
    "Explanation",
    "FlowFabric",
    "Frame",
    "NothingWaits",
    "Options",
    "ResultExpired",
    "Run",
    "Status",
    "SubmitRefused",
    "Superseded",
    "SyncFlowFabric",
    "SyncRun",
    "TaskCancelled",
    "TaskExpired",
    "TaskFailed",
    "TaskSkipped",
    "UnknownTask",
    "provided",
]
