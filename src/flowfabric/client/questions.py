"""Every question that crosses HTTP: where it is asked. The server answers with the record itself."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, get_args, get_origin

import msgspec
from msgspec import Struct

from flowfabric.client.operations import fill
from flowfabric.client.transport import Request
from flowfabric.model.command import Question
from flowfabric.model.operations import (
    kind,
    lane,
    lease,
    read,
    read_list,
    signal,
    step,
    stream,
    suspend_resume,
    suspend_waitpoint,
    worker,
)

RECORDS: Final = "application/vnd.flowfabric.record+json"
_RUN: Final = "/v1/executions/{execution_id}"
_STREAM: Final = f"{_RUN}/attempts/{{attempt_index}}/stream"

PATHS: Final[Mapping[type[Question[Any]], str]] = {
    read.Describe: _RUN,
    read.GetExecution: _RUN,
    read.GetPayload: f"{_RUN}/detail",
    read.ListAttempts: f"{_RUN}/detail",
    suspend_resume.GetSuspension: f"{_RUN}/detail",
    read.GetResult: f"{_RUN}/result",
    read.ReadHistory: f"{_RUN}/history",
    signal.ObserveSignals: f"{_RUN}/signals",
    suspend_waitpoint.ListWaitpoints: f"{_RUN}/pending-waitpoints",
    suspend_waitpoint.ReadToken: f"{_RUN}/waitpoints/{{waitpoint_id}}/token",
    stream.ReadStream: _STREAM,
    stream.TailStream: f"{_STREAM}/tail",
    stream.ReadSummary: f"{_STREAM}/summary",
    step.ListSteps: f"{_RUN}/steps",
    step.GetStep: f"{_RUN}/steps/{{step_name}}",
    read_list.ListExecutions: "/v1/executions",
    read_list.ListQueue: "/v1/executions",
    read_list.ListPartition: "/v1/executions",
    read_list.FindExecutions: "/v1/executions",
    signal.ReadInbox: "/v1/waitpoints",
    read_list.ReadFeed: "/v1/feed",
    lane.ListLanes: "/v1/lanes",
    kind.GetKind: "/v1/kinds/{kind}",
    kind.FindKinds: "/v1/kinds",
    kind.ListKinds: "/v1/kinds",
    worker.ListWorkers: "/v1/workers",
    lease.CountLeases: "/v1/workers",
    read_list.CountExecutions: "/v1/stats",
    lease.ListLeases: "/v1/workers/{worker_instance_id}/leases",
}
"""By question."""


def asked(question: Question[Any], wait_seconds: float = 0.0, **more: str) -> Request:
    """Write the request of a question: what its path does not say goes along as JSON."""
    path = PATHS[type(question)]
    named = {part[1:-1] for part in path.split("/") if part.startswith("{")}
    defaults = _defaults(type(question))
    fields = {
        name: getattr(question, name)
        for name in question.__struct_fields__
        if name not in named and getattr(question, name) != defaults.get(name)
    }
    text = msgspec.json.encode({type(question).__name__: fields}).decode()
    return Request(
        method="GET", path=fill(path, question), query={"question": text, **more}, accept=RECORDS, safe=True,
        wait_seconds=wait_seconds,
    )  # fmt: skip


@cache
def _defaults(kind: type[Struct]) -> dict[str, Any]:
    return {field.name: field.default for field in msgspec.structs.fields(kind)}


@cache
def answer_type(kind: type[Question[Any]]) -> Any:
    """Return the type of the answers to a question, as its class declares it."""
    for base in kind.__mro__:
        for declared in getattr(base, "__orig_bases__", ()):
            arguments = get_args(declared)
            if arguments and issubclass(get_origin(declared), Question) and not _is_variable(arguments[0]):
                return arguments[0]
    raise TypeError(f"{kind.__name__} does not say what its answer is")


def _is_variable(argument: Any) -> bool:
    return type(argument).__name__ == "TypeVar"
