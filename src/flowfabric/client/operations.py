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
from flowfabric.model.command import Command
from flowfabric.model.errors import NotOffered
from flowfabric.model.ids import Partitions
from flowfabric.model.operations import (
    access,
    access_secret,
    claim,
    create,
    finish,
    grant,
    kind,
    lane,
    lease,
    operate,
    signal,
    step,
    stream,
    suspend,
    suspend_resume,
    suspend_waitpoint,
    timer,
    worker,
)

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
        path=f"{_RUN}/grant", answer=variants(grant.Granted), body=lambda c: body(c) | {"kind": kind}
    )


def _claim(by: str, *more: str) -> Operation:
    body = fields("worker_id", "worker_instance_id", "lease_id", "lease_ttl_ms", *more)
    return Operation(path=f"{_RUN}/claim", answer=answers.claimed_one, body=lambda c: body(c) | {"by": by})


_SIGNALLED: Final = variants(Accepted=signal.SignalAccepted, Duplicate=signal.SignalDuplicate)
_ALIVE: Final = variants(worker.NotRegistered, worker.Marked, Refreshed=answers.refreshed)

OPERATIONS: Final[Mapping[type[Command[Any]], Operation]] = {
    # What clients do.
    create.CreateExecution: Operation(path="/v1/submit", answer=answers.created, safe=always),
    signal.DeliverSignal: Operation(
        path=f"{_RUN}/signal", answer=_SIGNALLED, body=bodies.signal, safe=keyed
    ),
    # What operators do.
    operate.ChangePriority: Operation(
        path=f"{_RUN}/priority", answer=answers.reprioritised, method="PUT",
        body=lambda command: {"new_priority": bodies.clamped(command.priority)},
    ),
    operate.SetTags: Operation(
        path=f"{_RUN}/tags", answer=variants(Updated=operate.TagsSet), method="PUT", safe=always,
        body=lambda command: {"tags": dict(command.tags)},
    ),
    operate.Pause: _operator("pause", variants(operate.Paused), "reason"),
    operate.Unpause: _operator("unpause", variants(operate.Unpaused)),
    lane.PauseLane: Operation(
        path="/v1/lanes/{lane_id}/pause", answer=variants(operate.Paused), body=fields("reason"), safe=always
    ),
    lane.UnpauseLane: Operation(
        path="/v1/lanes/{lane_id}/unpause", answer=variants(operate.Unpaused), body=fields(), safe=always
    ),
    operate.Replay: Operation(
        path=f"{_RUN}/replay", answer=variants(operate.Replayed),
        query=lambda command: _texts(command, "keep_steps", "from_step", "reason", "requested_by"),
    ),
    lease.RevokeLease: Operation(
        path=f"{_RUN}/revoke-lease", answer=variants(lease.Revoked, lease.AlreadySatisfied),
        query=lambda command: _texts(command, "expected_lease_id", "reason"),
    ),
    kind.DeleteKind: Operation(
        path="/v1/kinds/{kind}", answer=variants(Deleted=kind.KindDeleted), method="DELETE",
        query=lambda command: _texts(command, "namespace"),
    ),
    signal.ApproveSignal: Operation(
        path=f"{_RUN}/waitpoints/{{waitpoint_id}}/signal", answer=_SIGNALLED, body=bodies.approval, safe=always
    ),
    suspend_resume.ResumeExecution: _operator(
        "resume", variants(suspend_resume.Resumed), "resume_delay_ms", safe=never
    ),
    grant.GrantAndClaim: _claim("name", "attempt_id"),
    # What workers do.
    claim.Claim: Operation(
        path="/v1/workers/{worker_id}/tasks", answer=answers.claimed, body=bodies.claim, safe=always
    ),
    grant.IssueClaimGrant: _grant("claim"),
    grant.IssueReclaimGrant: _grant("reclaim"),
    grant.ClaimGranted: _claim("grant", "attempt_id"),
    grant.ClaimResumed: _claim("resumed"),
    grant.Reclaim: _claim("reclaim", "attempt_id", "max_reclaim_count"),
    lease.Renew: _holder("renew", variants(lease.Renewed), "lease_ttl_ms", "attempt_index", safe=fenced),
    lease.Release: _holder("release", variants(lease.Released), "reason"),
    finish.Complete: _holder("complete", variants(finish.Completed), body=bodies.completion, safe=fenced),
    finish.Fail: _holder(
        "fail", variants(finish.RetryScheduled, finish.TerminalFailed), "reason", "category", "detail",
        "retry_after_ms", safe=fenced,
    ),
    finish.Cancel: _holder("cancel", variants(finish.Cancelled), body=bodies.cancellation, safe=fenced),
    finish.Delay: _holder("delay", variants(finish.Delayed), "delay_until"),
    finish.WaitChildren: _holder("wait-children", variants(finish.Moved)),
    lease.UpdateProgress: _holder("progress", variants(lease.Updated), "pct", "message", safe=fenced),
    suspend.Suspend: _holder(
        "suspend", variants(Suspended=answers.suspended, AlreadySatisfied=answers.satisfied),
        body=bodies.suspension, safe=keyed,
    ),
    suspend_waitpoint.CreateWaitpoint: _holder(
        "waitpoints", variants(Created=answers.opened), body=bodies.waitpoint
    ),
    suspend_waitpoint.CloseWaitpoint: Operation(
        path=f"{_RUN}/waitpoints/{{waitpoint_id}}", method="DELETE", safe=always,
        answer=variants(Closed=suspend_waitpoint.WaitpointClosed), query=lambda command: _texts(command, "reason"),
    ),
    stream.AppendFrames: _holder("frames", variants(Appended=answers.appended), body=bodies.frames),
    step.PutStep: _holder("steps", answers.step_put, body=bodies.step, safe=always),
    kind.PublishKind: Operation(
        path="/v1/kinds/{kind}", answer=variants(kind.Published, kind.Unchanged), method="PUT", safe=always,
        body=bodies.kind,
    ),
    worker.RegisterWorker: Operation(
        path="/v1/workers/{worker_id}/register", answer=answers.registered, safe=always,
        body=fields("worker_instance_id", "namespace", "lanes", "capabilities", "liveness_ttl_ms", "kinds"),
    ),
    worker.HeartbeatWorker: Operation(
        path="/v1/workers/{worker_instance_id}/heartbeat", answer=_ALIVE, safe=always,
        body=fields("worker_instance_id", "namespace"),
    ),
    worker.MarkWorkerDead: Operation(
        path="/v1/workers/{worker_instance_id}/dead", answer=_ALIVE,
        body=fields("worker_instance_id", "namespace", "reason"),
    ),
}  # fmt: skip
"""By command: everything that a client, an operator or a worker does."""

_TIMERS: Final = "the server's engine does it when it is due"
_SECRETS: Final = "the server seeds its secret itself; rotate it with POST /v1/admin/rotate-waitpoint-secret"
_TOKENS: Final = "only the server sees what is stored of a token; use /v1/admin/tokens"

NOT_OFFERED: Final[Mapping[type[Command[Any]], str]] = {
    timer.MarkLeaseExpired: _TIMERS,
    timer.PromoteDelayed: _TIMERS,
    timer.ExpireSuspension: _TIMERS,
    timer.ExpireExecution: _TIMERS,
    timer.ExpireWaitpoints: _TIMERS,
    timer.Purge: _TIMERS,
    timer.LoseDeadLease: "mark the worker dead: the server takes its leases in the same call",
    access_secret.SeedSecret: _SECRETS,
    access_secret.RotateSecret: _SECRETS,
    lane.OpenLane: "name the lanes in the server's settings; any other comes into being with its first execution",
    operate.Block: "admission inside the engine blocks work; operators pause it",
    operate.Unblock: "admission inside the engine lets work go on; operators unpause it",
    access.CreateToken: _TOKENS,
    access.DeleteToken: _TOKENS,
    access.ListTokens: _TOKENS,
    access.SignLink: "ask for a link with POST /v1/executions/{id}/waitpoints/{waitpoint_id}/link",
    access_secret.ReadCursorKeys: "the keys of a server are its own; its lists come with cursors",
    access_secret.ListKids: "the keys of a server are its own; GET /healthz says whether it is ready",
    timer.ReadDue: _TIMERS,
    claim.FindClaimable: "claim at once, or ask for a grant with POST /v1/workers/{worker_id}/claim",
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
