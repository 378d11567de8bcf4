"""Every question that crosses HTTP: where it is asked. The server answers with the record itself."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, get_args, get_origin

import msgspec
from msgspec import Struct

from flowfabric.client.operations import fill
from flowfabric.client.transport import Request
from flowfabric.model.contracts import kinds, reads
from flowfabric.model.contracts.reads import Question

RECORDS: Final = "application/vnd.flowfabric.record+json"
_RUN: Final = "/v1/executions/{execution_id}"
_STREAM: Final = f"{_RUN}/attempts/{{attempt_index}}/stream"

PATHS: Final[Mapping[type[Question[Any]], str]] = {
    reads.Describe: _RUN,
    reads.GetExecution: _RUN,
    reads.GetPayload: f"{_RUN}/detail",
    reads.ListAttempts: f"{_RUN}/detail",
    reads.GetSuspension: f"{_RUN}/detail",
    reads.GetResult: f"{_RUN}/result",
    reads.ReadHistory: f"{_RUN}/history",
    reads.ObserveSignals: f"{_RUN}/signals",
    reads.ListWaitpoints: f"{_RUN}/pending-waitpoints",
    reads.ReadToken: f"{_RUN}/waitpoints/{{waitpoint_id}}/token",
    reads.ReadStream: _STREAM,
    reads.TailStream: f"{_STREAM}/tail",
    reads.ReadSummary: f"{_STREAM}/summary",
    reads.ListSteps: f"{_RUN}/steps",
    reads.GetStep: f"{_RUN}/steps/{{step_name}}",
    reads.ListExecutions: "/v1/executions",
    reads.ListQueue: "/v1/executions",
    reads.ListPartition: "/v1/executions",
    reads.FindExecutions: "/v1/executions",
    reads.ReadInbox: "/v1/waitpoints",
    reads.ReadFeed: "/v1/feed",
    reads.ListLanes: "/v1/lanes",
    kinds.GetKind: "/v1/kinds/{kind}",
    kinds.FindKinds: "/v1/kinds",
    kinds.ListKinds: "/v1/kinds",
    reads.ListWorkers: "/v1/workers",
    reads.CountLeases: "/v1/workers",
    reads.CountExecutions: "/v1/stats",
    reads.ListLeases: "/v1/workers/{worker_instance_id}/leases",
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
