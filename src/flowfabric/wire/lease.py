"""Holding a lease: renewing it, giving it back, reporting progress; and taking it away."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from flowfabric.model.command import Fence
from flowfabric.model.limits import DEFAULT_LEASE_TTL_MS
from flowfabric.model.operations.lease import (
    AlreadySatisfied,
    ListLeases,
    Release,
    Released,
    Renew,
    Renewed,
    Revoked,
    RevokeLease,
    Updated,
    UpdateProgress,
)
from flowfabric.wire.answers import View, items_of, one_of
from flowfabric.wire.examples import FENCE, ID
from flowfabric.wire.fields import Body, HolderBody, Integer, fence_of
from flowfabric.wire.rights import Right
from flowfabric.wire.route import RUN, always, fenced, route

MAX_RENEWALS: Final = 256
"""Leases that one call renews."""


class RenewBody(HolderBody, frozen=True):
    """How long the lease is to hold from now."""

    lease_ttl_ms: Integer = DEFAULT_LEASE_TTL_MS
    attempt_index: Integer | None = None
    """When given, it must be the current one."""


RENEW = route(
    "renew", "POST", f"{RUN}/renew", Right.WORK, "Hold the lease longer.",
    command=Renew, body=RenewBody, answer=one_of(Renewed), safe=fenced,
    example={"fence": FENCE, "lease_ttl_ms": 30000},
)  # fmt: skip


class HeldLease(Body, frozen=True):
    """One lease to renew; a malformed one is refused alone."""

    execution_id: str
    lease_id: str | None = None
    lease_epoch: int | None = None
    attempt_id: str | None = None

    def fence(self) -> Fence:
        """Return the fence that the engine takes."""
        return fence_of(self.lease_id, self.lease_epoch, self.attempt_id)

    @classmethod
    def of(cls, command: Renew) -> HeldLease:
        """Return the lease that a command renews."""
        fence = command.fence
        epoch = fence.lease_epoch if fence.lease_epoch >= 0 else None
        return cls(command.execution_id, fence.lease_id or None, epoch, fence.attempt_id or None)


class RenewManyBody(Body, frozen=True):
    """Leases to renew."""

    fences: tuple[HeldLease, ...]
    lease_ttl_ms: Integer = DEFAULT_LEASE_TTL_MS


class RenewedLease(View, frozen=True, kw_only=True):
    """Until when a lease holds now."""

    execution_id: str
    expires_at: int


class RefusedLease(View, frozen=True, kw_only=True):
    """Why a lease was not renewed."""

    execution_id: str
    error: str
    kind: str
    code: str
    retryable: bool
    details: tuple[str, ...] = ()
    field: str = ""


_RESULTS: Final = items_of(RenewedLease, RefusedLease)


class RenewalResults(View, frozen=True, kw_only=True):
    """What became of each lease, in order."""

    results: Annotated[tuple[Any, ...], _RESULTS]


RENEW_MANY = route(
    "renew_many", "POST", "/v1/workers/{worker_id}/renew", Right.WORK,
    "Hold many leases longer; each is answered for itself, in order.",
    body=RenewManyBody, answer=RenewalResults, bound=True, safe=always,
    example={"fences": [{"execution_id": ID, **FENCE}], "lease_ttl_ms": 30000},
)  # fmt: skip


class ReleaseBody(HolderBody, frozen=True):
    """Why, if there is something to say."""

    reason: str | None = None


RELEASE = route(
    "release", "POST", f"{RUN}/release", Right.WORK,
    "Give the lease back unfinished; others may claim it at once.",
    command=Release, body=ReleaseBody, answer=one_of(Released), example={"fence": FENCE},
)  # fmt: skip


class ProgressBody(HolderBody, frozen=True):
    """How far the work is; what is not given stays."""

    pct: Integer | None = None
    message: str | None = None


PROGRESS = route(
    "progress", "POST", f"{RUN}/progress", Right.WORK, "Say how far the work is.",
    command=UpdateProgress, body=ProgressBody, answer=one_of(Updated), safe=fenced,
    example={"fence": FENCE, "pct": 50, "message": "half of it"},
)  # fmt: skip


class RevokeQuery(Body, frozen=True):
    """Which lease, if only that one is meant, and why."""

    expected_lease_id: str = ""
    reason: str = "operator_revoke"


class RevokedView(View, frozen=True, kw_only=True):
    """The lease that is gone."""

    MODEL: ClassVar[Any] = Revoked

    lease_id: str
    lease_epoch: str

    @classmethod
    def of(cls, source: Any, /, **given: Any) -> RevokedView:
        """Build it from the answer of the engine."""
        return super().of(source, lease_epoch=str(source.lease_epoch), **given)

    def model(self) -> Revoked:
        """Return the answer of the engine."""
        return Revoked(self.lease_id, int(self.lease_epoch))


REVOKE_LEASE = route(
    "revoke_lease", "POST", f"{RUN}/revoke-lease", Right.OPERATE, "Take the lease away from its holder.",
    command=RevokeLease, query=RevokeQuery, answer=one_of(AlreadySatisfied, Revoked=RevokedView), classic=True,
)  # fmt: skip


class LeasePage(View, frozen=True, kw_only=True):
    """Executions that an instance of a worker holds."""

    executions: tuple[str, ...]
    next_cursor: str | None


LIST_LEASES = route(
    "leases",
    "GET",
    "/v1/workers/{worker_id}/leases",
    Right.READ,
    "List the executions that one instance of a worker holds.",
    questions=(ListLeases,),
    answer=LeasePage,
    bound=True,
)
