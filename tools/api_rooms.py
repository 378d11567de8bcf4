"""Which page of the Python API tells of what."""

from __future__ import annotations

from typing import Final, NamedTuple


class Room(NamedTuple):
    """A page: its file, what it is about, and its names; those with brackets are made by their users."""

    file: str
    title: str
    about: str
    names: dict[str, tuple[str, ...]]
    """By the module that users import from."""


ROOMS: Final = (
    Room(
        "app",
        "The app",
        "What a program is written with: tasks, submissions, and the options of both."
        " [The tutorial](../../tutorial.md) begins with it.",
        {
            "flowfabric": ("FlowFabric()", "Backoff()", "provided"),
            "flowfabric.app": ("Options", "Call", "AppWorker", "SyncFlowFabric"),
            "flowfabric.codecs": ("Duration", "Codec"),
        },
    ),
    Room(
        "run",
        "Runs",
        "The handle of one run, from whoever submitted it or by its id in any process, and what it tells.",
        {"flowfabric": ("Run", "SyncRun", "Status", "Explanation", "Frame", "AttemptStarted", "Superseded")},
    ),
    Room(
        "context",
        "The context",
        "What a handler may do while it runs, and what it gets. Guides:"
        " [waiting for people](../../guides/waiting-for-people.md), [streams](../../guides/streams.md).",
        {
            "flowfabric": ("Context", "SyncContext", "Signal"),
            "flowfabric.worker": ("WithOptions", "SyncWithOptions", "Waitpoint", "Child", "SyncChild"),
        },
    ),
    Room(
        "exceptions",
        "Exceptions",
        "What handlers raise on purpose, what is raised into them, and what those get who wait for a run. Refusals of"
        " the engine are a tree of their own, [`flowfabric.errors`](../errors.md). Guide:"
        " [retries and timeouts](../../guides/retries-and-timeouts.md).",
        {
            "flowfabric": (
                "Retry()",
                "Permanent()",
                "StepTimeout",
                "WaitTimeout",
                "LeaseLost",
                "TaskFailed",
                "TaskCancelled",
                "TaskExpired",
                "ResultExpired",
                "NothingWaits",
                "SubmitRefused",
                "FlowFabricError",
            ),
            "flowfabric.app": ("TaskSkipped", "UnknownTask"),
            "flowfabric.worker": ("StepMismatch", "TaskConsumed"),
        },
    ),
    Room(
        "testing",
        "The test kit",
        "For tests of your tasks. Guide: [testing](../../guides/testing.md).",
        {"flowfabric.testing": ("Lab()", "Clock", "StillRunning", "SyncLab()", "SyncClock")},
    ),
    Room(
        "worker",
        "Workers by hand",
        "Most programs need none of this: `app.worker()` does it. Here are layers around every call and handler, and"
        " the low level for loops of your own.",
        {
            "flowfabric.worker": (
                "Layer",
                "RateLimit()",
                "CircuitBreaker()",
                "Tracing()",
                "Metrics()",
                "Sink",
                "Worker",
                "WorkerSettings()",
                "ClaimedTask",
                "Runtime()",
                "Handler()",
                "Resolver",
                "verify_and_deliver",
            ),
        },
    ),
    Room(
        "stores",
        "Stores and the engine",
        "Below the app lies the storage boundary: [commands and questions](../operations.md) that every store decides"
        " alike. Guides: [embedding](../../guides/embedding.md), [the client over HTTP](../../guides/client.md).",
        {
            "flowfabric": ("open_store", "SqliteStore", "HttpClient", "Engine()"),
            "flowfabric.engine": ("claim_when_ready", "tail_when_ready", "wait_until_ended"),
            "flowfabric.storage.base": ("Commands", "Upkeep", "StoreTraits", "Subscription"),
        },
    ),
)

TWINS: Final = {
    "SyncFlowFabric": "FlowFabric",
    "SyncRun": "Run",
    "SyncContext": "Context",
    "SyncChild": "Child",
    "SyncLab": "Lab",
    "SyncClock": "Clock",
}
"""Those that do what others do, without `await`: their methods are only listed."""
FIRST: Final = ("task", "submit", "options", "submit_many", "call", "run", "worker")
"""What a reader looks for before anything else."""
HIDDEN: Final = {
    "Backoff": {"policy"},
    "Options": {"over", "policy", "tag_pairs", "has_policy"},
    "Worker": {"adopt"},
    "ClaimedTask": {"ask", "send", "end", "let_go"},
    "RateLimit": {"before"},
    "CircuitBreaker": {"before", "after"},
    "Tracing": {"after"},
    "Metrics": {"after"},
    "SqliteStore": {
        "acquire_leader_lease",
        "release_leader_lease",
        "collect",
        "repair",
        "dump",
        "close",
        "partitions",
        "traits",
    },
    "HttpClient": {
        "apply",
        "apply_many",
        "claim_within",
        "end_within",
        "make_link",
        "partitions",
        "read",
        "subscribe",
        "tail_within",
        "traits",
    },
}
"""What other rooms need, and what every store or layer has."""
SHARED: Final = {"Submits": "FlowFabric", "Submitter": "FlowFabric"}
"""Where the methods of a base are explained, if not there."""
