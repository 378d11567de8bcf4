"""Every operation that crosses HTTP: one line each, and the few that do not, each with what to do instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from flowfabric.client import answers, bodies
from flowfabric.client.answers import Read, variants
from flowfabric.client.bodies import Body, fields, held
from flowfabric.client.transport import Request
from flowfabric.model.contracts import access, create, kinds, lease, reads, streams, upkeep, waiting
from flowfabric.model.contracts.base import Command
from flowfabric.model.errors import NotOffered
from flowfabric.model.ids import Partitions

Query = Callable[[Any], dict[str, str]]
Safe = Callable[[Any], bool]
_RUN: Final = "/v1/executions/{execution_id}"


class Operation(Struct, frozen=True, kw_only=True):
    """How one command crosses HTTP."""

    path: str
    """Fields of the command stand in braces."""
    answer: Read
    method: str = "POST"
    body: Body | None = None
    query: Query | None = None
    safe: Safe = lambda _: False
    """Whether the server recognises a repeat of the command, or a repeat changes nothing more."""

    def request(self, command: Command[Any], wait_seconds: float = 0.0, **more: Any) -> Request:
        """Write the request of a command."""
        body = self.body(command) | more if self.body is not None else None
        return Request(
            method=self.method,
            path=fill(self.path, command),
            body=None if body is None else msgspec.json.encode(body),
            query=self.query(command) if self.query is not None else {},
            safe=self.safe(command),
            actor=command.actor,
            wait_seconds=wait_seconds,
        )


def fill(path: str, command: Command[Any]) -> str:
    """Put the fields of a command into a path, each as one segment."""
    parts = (
        quote(str(getattr(command, part[1:-1])), safe="") if part.startswith("{") else part
        for part in path.split("/")
    )
    return "/".join(parts)


def never(_: Any) -> bool:
    """A repeat would do it twice, or be refused."""
    return False


def always(_: Any) -> bool:
    """A repeat is recognised by an id in the command, or changes nothing more."""
    return True


def fenced(command: Any) -> bool:
    """A repeat by the holder of the attempt is answered as the first time."""
    return bool(command.fence.whole)


def keyed(command: Any) -> bool:
    """A repeat is recognised by its idempotency key."""
    return bool(command.idempotency_key)


def _holder(verb: str, answer: Read, *names: str, safe: Safe = never, body: Body | None = None) -> Operation:
    return Operation(path=f"{_RUN}/{verb}", answer=answer, body=body or held(*names), safe=safe)


def _operator(verb: str, answer: Read, *names: str, safe: Safe = always) -> Operation:
    return Operation(path=f"{_RUN}/{verb}", answer=answer, body=fields(*names), safe=safe)


def _grant(kind: str) -> Operation:
    body = fields(
        "worker_id", "worker_instance_id", "lane_id", "capability_hash", "grant_ttl_ms", "route_snapshot_json",
        "admission_summary", "worker_capabilities",
    )  # fmt: skip
    return Operation(
        path=f"{_RUN}/grant", answer=variants(lease.Granted), body=lambda c: body(c) | {"kind": kind}
    )


def _claim(by: str, *more: str) -> Operation:
    body = fields("worker_id", "worker_instance_id", "lease_id", "lease_ttl_ms", *more)
    return Operation(path=f"{_RUN}/claim", answer=answers.claimed_one, body=lambda c: body(c) | {"by": by})


_SIGNALLED: Final = variants(Accepted=waiting.SignalAccepted, Duplicate=waiting.SignalDuplicate)
_ALIVE: Final = variants(upkeep.NotRegistered, upkeep.Marked, Refreshed=answers.refreshed)

OPERATIONS: Final[Mapping[type[Command[Any]], Operation]] = {
    # What clients do.
    create.CreateExecution: Operation(path="/v1/submit", answer=answers.created, safe=always),
    waiting.DeliverSignal: Operation(
        path=f"{_RUN}/signal", answer=_SIGNALLED, body=bodies.signal, safe=keyed
    ),
    # What operators do.
    create.ChangePriority: Operation(
        path=f"{_RUN}/priority", answer=answers.reprioritised, method="PUT",
        body=lambda command: {"new_priority": bodies.clamped(command.priority)},
    ),
    create.SetTags: Operation(
        path=f"{_RUN}/tags", answer=variants(Updated=create.TagsSet), method="PUT", safe=always,
        body=lambda command: {"tags": dict(command.tags)},
    ),
    create.Pause: _operator("pause", variants(create.Paused), "reason"),
    create.Unpause: _operator("unpause", variants(create.Unpaused)),
    create.PauseLane: Operation(
        path="/v1/lanes/{lane_id}/pause", answer=variants(create.Paused), body=fields("reason"), safe=always
    ),
    create.UnpauseLane: Operation(
        path="/v1/lanes/{lane_id}/unpause", answer=variants(create.Unpaused), body=fields(), safe=always
    ),
    create.Replay: Operation(
        path=f"{_RUN}/replay", answer=variants(create.Replayed),
        query=lambda command: _texts(command, "keep_steps", "from_step", "reason", "requested_by"),
    ),
    create.RevokeLease: Operation(
        path=f"{_RUN}/revoke-lease", answer=variants(create.Revoked, create.AlreadySatisfied),
        query=lambda command: _texts(command, "expected_lease_id", "reason"),
    ),
    kinds.DeleteKind: Operation(
        path="/v1/kinds/{kind}", answer=variants(Deleted=kinds.KindDeleted), method="DELETE",
        query=lambda command: _texts(command, "namespace"),
    ),
    waiting.ApproveSignal: Operation(
        path=f"{_RUN}/waitpoints/{{waitpoint_id}}/signal", answer=_SIGNALLED, body=bodies.approval, safe=always
    ),
    waiting.ResumeExecution: _operator("resume", variants(waiting.Resumed), "resume_delay_ms", safe=never),
    lease.GrantAndClaim: _claim("name", "attempt_id"),
    # What workers do.
    lease.Claim: Operation(
        path="/v1/workers/{worker_id}/tasks", answer=answers.claimed, body=bodies.claim, safe=always
    ),
    lease.IssueClaimGrant: _grant("claim"),
    lease.IssueReclaimGrant: _grant("reclaim"),
    lease.ClaimGranted: _claim("grant", "attempt_id"),
    lease.ClaimResumed: _claim("resumed"),
    lease.Reclaim: _claim("reclaim", "attempt_id", "max_reclaim_count"),
    lease.Renew: _holder("renew", variants(lease.Renewed), "lease_ttl_ms", "attempt_index", safe=fenced),
    lease.Release: _holder("release", variants(lease.Released), "reason"),
    lease.Complete: _holder("complete", variants(lease.Completed), body=bodies.completion, safe=fenced),
    lease.Fail: _holder(
        "fail", variants(lease.RetryScheduled, lease.TerminalFailed), "reason", "category", "detail",
        "retry_after_ms", safe=fenced,
    ),
    lease.Cancel: _holder("cancel", variants(create.Cancelled), body=bodies.cancellation, safe=fenced),
    lease.Delay: _holder("delay", variants(lease.Delayed), "delay_until"),
    lease.WaitChildren: _holder("wait-children", variants(lease.Moved)),
    lease.UpdateProgress: _holder("progress", variants(lease.Updated), "pct", "message", safe=fenced),
    waiting.Suspend: _holder(
        "suspend", variants(Suspended=answers.suspended, AlreadySatisfied=answers.satisfied),
        body=bodies.suspension, safe=keyed,
    ),
    waiting.CreateWaitpoint: _holder(
        "waitpoints", variants(Created=answers.opened), body=bodies.waitpoint
    ),
    waiting.CloseWaitpoint: Operation(
        path=f"{_RUN}/waitpoints/{{waitpoint_id}}", method="DELETE", safe=always,
        answer=variants(Closed=waiting.WaitpointClosed), query=lambda command: _texts(command, "reason"),
    ),
    streams.AppendFrames: _holder("frames", variants(Appended=answers.appended), body=bodies.frames),
    streams.PutStep: _holder("steps", answers.step_put, body=bodies.step, safe=always),
    kinds.PublishKind: Operation(
        path="/v1/kinds/{kind}", answer=variants(kinds.Published, kinds.Unchanged), method="PUT", safe=always,
        body=bodies.kind,
    ),
    upkeep.RegisterWorker: Operation(
        path="/v1/workers/{worker_id}/register", answer=answers.registered, safe=always,
        body=fields("worker_instance_id", "namespace", "lanes", "capabilities", "liveness_ttl_ms", "kinds"),
    ),
    upkeep.HeartbeatWorker: Operation(
        path="/v1/workers/{worker_instance_id}/heartbeat", answer=_ALIVE, safe=always,
        body=fields("worker_instance_id", "namespace"),
    ),
    upkeep.MarkWorkerDead: Operation(
        path="/v1/workers/{worker_instance_id}/dead", answer=_ALIVE,
        body=fields("worker_instance_id", "namespace", "reason"),
    ),
}  # fmt: skip
"""By command: everything that a client, an operator or a worker does."""

_TIMERS: Final = "the server's engine does it when it is due"
_SECRETS: Final = "the server seeds its secret itself; rotate it with POST /v1/admin/rotate-waitpoint-secret"
_TOKENS: Final = "only the server sees what is stored of a token; use /v1/admin/tokens"

NOT_OFFERED: Final[Mapping[type[Command[Any]], str]] = {
    upkeep.MarkLeaseExpired: _TIMERS,
    upkeep.PromoteDelayed: _TIMERS,
    upkeep.ExpireSuspension: _TIMERS,
    upkeep.ExpireExecution: _TIMERS,
    upkeep.ExpireWaitpoints: _TIMERS,
    upkeep.Purge: _TIMERS,
    upkeep.LoseDeadLease: "mark the worker dead: the server takes its leases in the same call",
    upkeep.SeedSecret: _SECRETS,
    upkeep.RotateSecret: _SECRETS,
    create.OpenLane: "name the lanes in the server's settings; any other comes into being with its first execution",
    create.Block: "admission inside the engine blocks work; operators pause it",
    create.Unblock: "admission inside the engine lets work go on; operators unpause it",
    access.CreateToken: _TOKENS,
    access.DeleteToken: _TOKENS,
    access.ListTokens: _TOKENS,
    access.SignLink: "ask for a link with POST /v1/executions/{id}/waitpoints/{waitpoint_id}/link",
    access.ReadCursorKeys: "the keys of a server are its own; its lists come with cursors",
    reads.ListKids: "the keys of a server are its own; GET /healthz says whether it is ready",
    reads.ReadDue: _TIMERS,
    reads.FindClaimable: "claim at once, or ask for a grant with POST /v1/workers/{worker_id}/claim",
}
"""What stays inside the server, and what to do instead."""


def not_offered(command: Command[Any]) -> NotOffered:
    """Say that an operation does not cross HTTP."""
    remedy = NOT_OFFERED.get(type(command), "open the store itself")
    return NotOffered(f"{type(command).__name__} is not offered over HTTP: {remedy}")


def submission(command: create.CreateExecution, partitions: Partitions) -> Request:
    """Write the request of a submission, which depends on how ids are spread."""
    body = msgspec.json.encode(bodies.submission(command, partitions))
    return Request(method="POST", path="/v1/submit", body=body, safe=True, actor=command.actor)


def _texts(command: Any, *names: str) -> dict[str, str]:
    values = ((name, getattr(command, name)) for name in names)
    return {name: "true" if value is True else str(value) for name, value in values if value}
