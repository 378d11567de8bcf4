"""Workers that live: what a claim tells of its worker, and what the workers of a lane take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.model.limits import LIVENESS_MS, MAX_INT
from flowfabric.model.operations.claim import Claim
from flowfabric.model.records import VERSION, Worker

DEFAULT_NAMESPACE: Final = "default"
"""Where workers are known that are bound to no namespace: they take work of every one."""
RENOTE_MS: Final = 5_000
"""A sign of life is written at most this often; a claim happens far more often."""
MOST_GROUPS: Final = 50
"""How many groups of a lane are looked at: what many different workers say of themselves slows nobody."""


class Group(Struct, frozen=True):
    """Live workers of one lane and namespace that take the same."""

    capabilities: tuple[str, ...]
    kinds: tuple[str, ...]
    """Empty: of any kind."""
    workers: int


class Serving(Struct, frozen=True):
    """The live workers of one lane and namespace, in groups that take the same."""

    groups: tuple[Group, ...]
    whole: bool = True
    """Whether these are all groups that there are."""


def expires_at(worker: Worker) -> int:
    """When a worker counts as gone, unless it is heard of; its record may be deleted then."""
    return min(worker.last_heartbeat_at + worker.liveness_ttl_ms, MAX_INT)


def alive(worker: Worker, now: int) -> bool:
    """Whether a worker was heard of lately enough."""
    return expires_at(worker) > now


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
    """Return the worker record after a claim, or None when there is nothing worth writing.

    Lanes and capabilities of a worker that has registered are those that it has registered; kinds are those of its last
    claim or registration.
    """
    if known is None or (not known.registered_at and _differs(claim, known)):
        namespace, instance = presence_key(claim)
        return Worker(
            VERSION,
            claim.worker_id,
            instance,
            namespace,
            claim.lanes,
            _stored(claim.capabilities),
            now,
            LIVENESS_MS,
            0,
            _stored(claim.kinds or ()),
        )
    lately = 0 <= now - known.last_heartbeat_at < min(RENOTE_MS, known.liveness_ttl_ms // 3)
    kinds = known.kinds if _same(known.kinds, claim.kinds or ()) else _stored(claim.kinds or ())
    if lately and kinds is known.kinds:
        return None
    return replace(known, last_heartbeat_at=now, kinds=kinds)


def _differs(claim: Claim, known: Worker) -> bool:
    return known.lanes != claim.lanes or not _same(known.capabilities, claim.capabilities)


def _same(stored: tuple[str, ...], told: tuple[str, ...]) -> bool:
    return stored == told or stored == _stored(told)


def _stored(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(words)))
