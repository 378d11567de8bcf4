"""Making what timers, workers and keepers of secrets send."""

from __future__ import annotations

from flowfabric.model.operations.access_secret import RotateSecret, SeedSecret
from flowfabric.model.operations.timer import (
    ExpireExecution,
    ExpireSuspension,
    ExpireWaitpoints,
    LoseDeadLease,
    MarkLeaseExpired,
    PromoteDelayed,
    Purge,
)
from flowfabric.model.operations.worker import HeartbeatWorker, MarkWorkerDead, RegisterWorker
from support.simulation.making import Hand, maker
from support.simulation.world import KINDS, WORKERS

SECRETS = ("00" * 32, "ab" * 32, "0123456789abcdef" * 4, "zz", "")


@maker(MarkLeaseExpired)
def mark_lease_expired(hand: Hand) -> MarkLeaseExpired:
    return MarkLeaseExpired(**hand.on(hand.run()))


@maker(PromoteDelayed)
def promote_delayed(hand: Hand) -> PromoteDelayed:
    return PromoteDelayed(**hand.on(hand.run()))


@maker(ExpireSuspension)
def expire_suspension(hand: Hand) -> ExpireSuspension:
    return ExpireSuspension(**hand.on(hand.run()))


@maker(ExpireExecution)
def expire_execution(hand: Hand) -> ExpireExecution:
    return ExpireExecution(
        **hand.on(hand.run()), reason=hand.draw.pick(("attempt_timeout", "execution_deadline", "odd"))
    )


@maker(ExpireWaitpoints)
def expire_waitpoints(hand: Hand) -> ExpireWaitpoints:
    return ExpireWaitpoints(**hand.on(hand.run()))


@maker(Purge)
def purge(hand: Hand) -> Purge:
    return Purge(**hand.on(hand.run()))


@maker(LoseDeadLease)
def lose_dead_lease(hand: Hand) -> LoseDeadLease:
    known = hand.run()
    worker = known.worker if hand.draw.chance(0.8) else hand.draw.pick(WORKERS)
    return LoseDeadLease(**hand.on(known), worker_instance_id=worker.instance)


@maker(RegisterWorker)
def register_worker(hand: Hand) -> RegisterWorker:
    worker = hand.worker()
    return RegisterWorker(
        worker_instance_id=worker.instance,
        namespace=worker.namespace or "default",
        worker_id=worker.worker_id if hand.draw.chance(0.9) else "w9",
        lanes=worker.lanes,
        capabilities=worker.capabilities if hand.draw.chance(0.9) else ("a b",),
        liveness_ttl_ms=hand.draw.pick((1, 3_000, 30_000, 100_000)),
        kinds=hand.draw.pick((None, KINDS[:1], KINDS[::-1])),
    )


@maker(HeartbeatWorker)
def heartbeat_worker(hand: Hand) -> HeartbeatWorker:
    worker = hand.worker()
    return HeartbeatWorker(worker_instance_id=worker.instance, namespace=worker.namespace or "default")


@maker(MarkWorkerDead)
def mark_worker_dead(hand: Hand) -> MarkWorkerDead:
    worker = hand.worker()
    return MarkWorkerDead(
        worker_instance_id=worker.instance, namespace=worker.namespace or "default", reason="gone"
    )


@maker(SeedSecret)
def seed_secret(hand: Hand) -> SeedSecret:
    return SeedSecret(kid=hand.draw.pick(("k1", "k2", "")), secret_hex=hand.draw.pick(SECRETS))


@maker(RotateSecret)
def rotate_secret(hand: Hand) -> RotateSecret:
    return RotateSecret(
        new_kid=hand.draw.pick(("k1", "k2", "k3", "k4", "a:b")),
        new_secret_hex=hand.draw.pick(SECRETS),
        grace_ms=hand.draw.pick((0, 1_000, 100_000, 100_000, -1)),
    )
