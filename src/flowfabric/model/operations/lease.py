"""Renew, release and revoke leases, store progress, and list the leases of a worker."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.model import checks
from flowfabric.model.command import PAGE_MAX, ExecutionCommand, HolderCommand, Question
from flowfabric.model.errors import invalid, refuse
from flowfabric.model.ids import check_uuid
from flowfabric.model.limits import DEFAULT_LEASE_TTL_MS, MAX_LEASE_TTL_MS, MAX_TEXT_BYTES, MIN_LEASE_TTL_MS
from flowfabric.model.machine.group import step
from flowfabric.model.machine.holding import actor_of, hold, lease_details, lose_lease
from flowfabric.model.machine.workspace import LEASES, Cause, Workspace
from flowfabric.model.record_kinds import IndexQuery
from flowfabric.model.state import Ownership, Phase
from flowfabric.model.transitions import LEASE_RELEASED, LEASE_REVOKED, move


class Renewed(Struct, frozen=True):
    """Until when the lease holds now."""

    expires_at: int


class Renew(HolderCommand[Renewed], frozen=True, kw_only=True):
    """Hold the lease longer (T7)."""

    lease_ttl_ms: int = DEFAULT_LEASE_TTL_MS
    attempt_index: int | None = None
    """When given, it must be the current one."""

    def check(self) -> None:
        """Check the time and the attempt."""
        super().check()
        checks.integer("lease_ttl_ms", self.lease_ttl_ms, MIN_LEASE_TTL_MS, MAX_LEASE_TTL_MS)
        if self.attempt_index is not None:
            checks.integer("attempt_index", self.attempt_index)


@step(Renew)
def renew(space: Workspace, command: Renew) -> Renewed:
    """T7: the same lease, for longer. Not told in the history."""
    run = hold(space, command)
    if command.attempt_index is not None and command.attempt_index != run.attempt.index:
        raise refuse("stale_lease")
    expires_at = space.now + command.lease_ttl_ms
    space.touch(
        replace(
            run,
            lease_expires_at=expires_at,
            lease_last_renewed_at=space.now,
            lease_renewal_deadline=space.now + command.lease_ttl_ms * 2 // 3,
        )
    )
    return Renewed(expires_at)


class Released(Struct, frozen=True):
    """The lease was given back."""


class Release(HolderCommand[Released], frozen=True, kw_only=True):
    """Give the lease back unfinished; others may claim it at once."""

    reason: str = ""


@step(Release)
def release(space: Workspace, command: Release) -> Released:
    """T8: the holder gives the lease back unfinished; claimable at once, not counted as a reclaim."""
    run = hold(space, command)
    lose_lease(space, run, LEASE_RELEASED, "released", actor=actor_of(run, command), reason=command.reason)
    return Released()


class Updated(Struct, frozen=True):
    """The progress is stored."""


class UpdateProgress(HolderCommand[Updated], frozen=True, kw_only=True):
    """Say how far the work is; what is not given stays."""

    pct: int | None = None
    message: str | None = None

    def check(self) -> None:
        """Check percentage and message."""
        super().check()
        if self.pct is not None:
            checks.integer("pct", self.pct, 0, 100)
        if self.message is not None:
            checks.text("message", self.message, max_bytes=MAX_TEXT_BYTES, empty=True)


@step(UpdateProgress)
def update_progress(space: Workspace, command: UpdateProgress) -> Updated:
    """Store how far the work is. Not told in the history."""
    run = hold(space, command, mark=False)
    space.touch(
        replace(
            run,
            progress_pct=run.progress_pct if command.pct is None else command.pct,
            progress_message=run.progress_message if command.message is None else command.message,
            progress_updated_at=space.now,
        )
    )
    return Updated()


class Revoked(Struct, frozen=True):
    """The lease is gone."""

    lease_id: str
    lease_epoch: int


class AlreadySatisfied(Struct, frozen=True):
    """Nothing had to be done; `reason` says why."""

    reason: str


class RevokeLease(ExecutionCommand[Revoked | AlreadySatisfied], frozen=True, kw_only=True):
    """Take the lease away from its holder (T9)."""

    expected_lease_id: str = ""
    reason: str = "operator_revoke"

    def check(self) -> None:
        """Check the texts."""
        super().check()
        checks.text("reason", self.reason, max_bytes=MAX_TEXT_BYTES, empty=True)
        if self.expected_lease_id:
            check_uuid("expected_lease_id", self.expected_lease_id)


@step(RevokeLease)
def revoke_lease(space: Workspace, command: RevokeLease) -> Revoked | AlreadySatisfied:
    """T9: the holder loses its lease; the work can be claimed again."""
    run = space.execution(command.execution_id)
    if run.lifecycle_phase is not Phase.ACTIVE:
        return AlreadySatisfied("no_active_lease")
    if run.ownership_state is Ownership.REVOKED:
        return AlreadySatisfied("already_revoked")
    if run.ownership_state is Ownership.EXPIRED:
        return AlreadySatisfied("already_expired")
    if command.expected_lease_id and command.expected_lease_id != run.current_lease_id:
        raise refuse("stale_lease", text="the lease is another one by now", field="expected_lease_id")
    revoked = move(
        run,
        LEASE_REVOKED,
        space.now,
        lease_revoked_at=space.now,
        lease_revoke_reason=command.reason,
        lease_end="revoked",
    )
    space.put_execution(
        revoked,
        LEASE_REVOKED.event,
        Cause(command.actor, command.reason, lease_details(run)),
        before=run.public_state,
    )
    return Revoked(run.current_lease_id, run.current_lease_epoch)


class CountLeases(Question[tuple[int, ...]], frozen=True, kw_only=True):
    """Return how many leases each of some worker instances holds."""

    worker_instance_ids: tuple[str, ...]
    namespace: str = ""
    """Only leases of work of this one; empty: of all."""

    def check(self) -> None:
        """Check the names."""
        super().check()
        checks.name("namespace", self.namespace, empty=True)
        if len(self.worker_instance_ids) > PAGE_MAX:
            raise invalid("worker_instance_ids", f"name at most {PAGE_MAX}")
        for each in self.worker_instance_ids:
            checks.worker("worker_instance_ids", each)


HELD: Final[IndexQuery[int]] = IndexQuery("held")
"""How many leases a worker instance holds in a namespace."""


@step(CountLeases)
def count_leases(space: Workspace, question: CountLeases) -> tuple[int, ...]:
    """Return how many entries the indexes of leases have."""
    asked = ((each, question.namespace) for each in question.worker_instance_ids)
    return tuple(space.several(HELD, asked))


class ListLeases(Question[tuple[str, ...]], frozen=True, kw_only=True):
    """Return the executions that a worker instance holds."""

    worker_instance_id: str

    def check(self) -> None:
        """Check the name."""
        super().check()
        checks.worker("worker_instance_id", self.worker_instance_id)


@step(ListLeases)
def list_leases(space: Workspace, question: ListLeases) -> tuple[str, ...]:
    """Return what a worker instance holds, from whichever claims."""
    return tuple(space.get(LEASES, question.worker_instance_id, None))
