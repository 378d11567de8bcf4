"""What a claim tells of its worker: that it lives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from flowfabric.model.contracts.lease import Claim
from flowfabric.model.limits import DAY_MS, LIVENESS_MS, MAX_INT
from flowfabric.model.records import VERSION, Worker

DEFAULT_NAMESPACE: Final = "default"
RENOTE_MS: Final = 5_000
"""A sign of life is written at most this often; a claim happens far more often."""


def forget_at(worker: Worker) -> int:
    """When the record of a worker may be deleted: a day after it was last alive."""
    return min(worker.last_heartbeat_at + worker.liveness_ttl_ms + DAY_MS, MAX_INT)


def unwritten(sights: Iterable[tuple[tuple[str, ...], Claim | None]]) -> list[Claim]:
    """Return the signs of life that are still to be written.

    A sight without a claim says that the record of that worker was written by name since, with all sights before.
    """
    claims: list[Claim] = []
    for key, claim in sights:
        if claim is None:
            claims = [each for each in claims if presence_key(each) != key]
        else:
            claims.append(claim)
    return claims


def presence_key(claim: Claim) -> tuple[str, str]:
    """Name the worker record that a claim refreshes."""
    return claim.namespace or DEFAULT_NAMESPACE, claim.worker_instance_id


def presence(claim: Claim, known: Worker | None, now: int) -> Worker | None:
    """Return the worker record after a claim, or None when there is nothing worth writing."""
    lately = known is not None and 0 <= now - known.last_heartbeat_at < min(
        RENOTE_MS, known.liveness_ttl_ms // 3
    )
    if known is not None and lately and (known.registered_at or not _differs(claim, known)):
        return None
    if known is None or (not known.registered_at and _differs(claim, known)):
        namespace, instance = presence_key(claim)
        return Worker(
            VERSION, claim.worker_id, instance, namespace, claim.lanes, tuple(sorted(set(claim.capabilities))), now,
            LIVENESS_MS, 0,
        )  # fmt: skip
    return replace(known, last_heartbeat_at=now)


def _differs(claim: Claim, known: Worker) -> bool:
    return known.lanes != claim.lanes or (
        known.capabilities != claim.capabilities
        and known.capabilities != tuple(sorted(set(claim.capabilities)))
    )
