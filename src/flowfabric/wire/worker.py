"""Workers: registration, heartbeats, death; and which workers live."""

from __future__ import annotations

from typing import Any, ClassVar

from flowfabric.model import checks
from flowfabric.model.limits import LIVENESS_MS
from flowfabric.model.operations.lease import CountLeases
from flowfabric.model.operations.worker import (
    HeartbeatWorker,
    ListWorkers,
    Marked,
    MarkWorkerDead,
    NotRegistered,
    Refreshed,
    Registered,
    RegisterWorker,
)
from flowfabric.wire.answers import OneOf, View, decoded, one_of
from flowfabric.wire.fields import Body, Integer
from flowfabric.wire.operate import number_in
from flowfabric.wire.read import NamesQuery
from flowfabric.wire.rights import Right
from flowfabric.wire.route import Incoming, always, route


class RegisterBody(Body, frozen=True):
    """A worker, what it serves and what it can do."""

    worker_instance_id: str
    lanes: tuple[str, ...]
    capabilities: tuple[str, ...] = ()
    liveness_ttl_ms: Integer = LIVENESS_MS
    kinds: tuple[str, ...] | None = None
    namespace: str | None = None


class _Word(View, frozen=True, kw_only=True):
    """An answer without fields; until when the worker lives is in `X-Next-Expiry-Ms`."""


def _registered(_: Any, reply: Any) -> Registered | Refreshed:
    if decoded(reply.body, str) == "Registered":
        return Registered()
    return Refreshed(number_in(reply, "x-next-expiry-ms"))


REGISTER = route(
    "register", "POST", "/v1/workers/{worker_id}/register", Right.WORK,
    "Announce a worker; a repeat overwrites what it said before.",
    command=RegisterWorker, body=RegisterBody, answer=OneOf({"Registered": Registered, "Refreshed": _Word}),
    bound=True, safe=always, reads=_registered,
    example={
        "worker_instance_id": "worker-1-a", "lanes": ["default"], "capabilities": ["gpu"],
        "liveness_ttl_ms": 30000, "kinds": ["resize"],
    },
)  # fmt: skip


class HeartbeatBody(Body, frozen=True):
    """One instance of a worker."""

    worker_instance_id: str
    namespace: str | None = None


class RefreshedView(View, frozen=True, kw_only=True):
    """Until when a worker lives, unless it sends another heartbeat."""

    MODEL: ClassVar[Any] = Refreshed

    next_expiry_ms: int

    @classmethod
    def of(cls, source: Any, /, **given: Any) -> RefreshedView:
        """Build it from the answer of the engine."""
        return cls(next_expiry_ms=source.next_expiry, **given)

    def model(self) -> Refreshed:
        """Return the answer of the engine."""
        return Refreshed(self.next_expiry_ms)


def _check_worker(call: Incoming, _: Any) -> dict[str, Any]:
    """Refuse a malformed worker in the path; the body names the instance."""
    checks.worker("worker_id", call.path["worker_id"])
    return {}


HEARTBEAT = route(
    "heartbeat", "POST", "/v1/workers/{worker_id}/heartbeat", Right.WORK, "Say that a registered worker lives.",
    command=HeartbeatWorker, body=HeartbeatBody, answer=one_of(NotRegistered, Refreshed=RefreshedView), bound=True,
    safe=always, takes=_check_worker, example={"worker_instance_id": "worker-1-a"},
)  # fmt: skip


class DeadBody(Body, frozen=True):
    """One instance of a worker that is gone."""

    worker_instance_id: str
    reason: str = ""
    namespace: str | None = None


MARK_DEAD = route(
    "dead", "POST", "/v1/workers/{worker_id}/dead", Right.WORK,
    "Declare a worker dead: what it held is claimable at once.",
    command=MarkWorkerDead, body=DeadBody, answer=one_of(Marked, NotRegistered), bound=True, takes=_check_worker,
    example={"worker_instance_id": "worker-1-a", "reason": "its machine is gone"},
)  # fmt: skip


class WorkerRow(View, frozen=True, kw_only=True):
    """A worker that lives."""

    worker_id: str
    worker_instance_id: str
    namespace: str
    lanes: tuple[str, ...]
    capabilities: tuple[str, ...]
    kinds: tuple[str, ...] | None
    leases_held: int
    last_heartbeat_at: int
    last_heartbeat_ms: int
    liveness_ttl_ms: int
    registered_at: int = 0
    registered_at_ms: int = 0


class WorkerPage(View, frozen=True, kw_only=True):
    """Workers by namespace and instance."""

    workers: tuple[WorkerRow, ...]
    next_cursor: str | None


LIST_WORKERS = route(
    "workers", "GET", "/v1/workers", Right.READ, "List the workers that live now, by namespace and instance.",
    questions=(ListWorkers, CountLeases), query=NamesQuery, answer=WorkerPage, bound=True,
)  # fmt: skip
