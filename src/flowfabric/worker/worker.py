"""The low-level worker: claims tasks, limits how many are held, and renews their leases."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

from flowfabric.codecs import Duration, millis
from flowfabric.engine import claim_when_ready
from flowfabric.model.errors import FlowFabricError, StoreClosed, invalid
from flowfabric.model.limits import MAX_LIVENESS_MS, MAX_TASKS_PER_CLAIM
from flowfabric.model.operations.claim import Claim, Claimed, Task
from flowfabric.model.operations.grant import ClaimGranted, ClaimResumed, Granted, Reclaim
from flowfabric.model.operations.signal import DeliverSignal, SignalAccepted, SignalDuplicate
from flowfabric.model.operations.worker import HeartbeatWorker, MarkWorkerDead, NotRegistered, RegisterWorker
from flowfabric.model.presence import DEFAULT_NAMESPACE
from flowfabric.storage import open_store
from flowfabric.storage.base import Commands
from flowfabric.storage.minting import new_uuid
from flowfabric.worker.claimed_task import ClaimedTask
from flowfabric.worker.execution.watchdog import LoopWatchdog
from flowfabric.worker.faults import WorkerAtCapacity
from flowfabric.worker.handlers import WorkerSettings
from flowfabric.worker.layers import Layer, layered
from flowfabric.worker.leases.renewal import LoopBoundStore, RenewalStore, Renewer
from flowfabric.worker.leases.worker_lease import WorkerLease
from flowfabric.worker.outbox import Outbox, RetryPause, is_transient

log = logging.getLogger("flowfabric.worker")


class Worker:
    """Claims tasks and renews their leases, for worker loops of your own.

    ::

        async with await Worker.open("work.db", WorkerSettings(lanes=("default",))) as worker:
            for task in await worker.claim(8, wait="20s"):
                await task.complete(b"done")

    It runs no engine: see `Engine`.
    """

    def __init__(
        self,
        store: Commands,
        settings: WorkerSettings,
        *,
        connect: Callable[[], Awaitable[RenewalStore]] | None = None,
        permits: int = 0,
        watch: LoopWatchdog | None = None,
    ) -> None:
        settings = settings.checked()
        if not settings.lanes:
            raise invalid("lanes", "name at least one lane")
        self.store = store
        self.settings = settings
        self.worker_id = settings.worker_id or socket.gethostname()
        # Whoever knows the ids of an instance and of a claim can read the answer of that claim again, with its fences:
        # both are random, so that nobody can guess them.
        self.instance_id = f"{self.worker_id}-{os.getpid()}-{secrets.token_hex(16)}"
        self.lease_ttl_ms = millis(settings.lease_ttl, "lease_ttl")
        self.outbox = Outbox(store)
        self.renewer = Renewer(store, self.lease_ttl_ms, connect, watch)
        self.closed = False
        self.looks_first = not store.traits.waits_remotely
        """Whether to claim without waiting first; a store that waits remotely does both in one call."""
        self._owns_store = False
        self._unanswered: Claim | None = None
        self._kinds: tuple[str, ...] | None = None
        """The kinds of the last claim, which the registration names."""
        self._permits = permits or settings.concurrency
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    @classmethod
    async def open(
        cls,
        store: Commands | str,
        settings: WorkerSettings,
        *,
        url: str = "",
        layers: Sequence[Layer] = (),
        permits: int = 0,
        watch: LoopWatchdog | None = None,
    ) -> Self:
        """Open a worker on a store or its URL. `url` is that of an open store, for a second connection."""
        opened = await open_store(store) if isinstance(store, str) else store
        place = store if isinstance(store, str) else url
        worker = cls(
            layered(opened, layers),
            settings,
            connect=_renewal_connection(opened, place, layers),
            permits=permits,
            watch=watch,
        )
        worker._owns_store = isinstance(store, str)
        return worker

    async def __aenter__(self) -> Self:
        self.renewer.start()
        self._tasks = (
            asyncio.create_task(self._send_heartbeats(), name="flowfabric-heartbeat"),
            asyncio.create_task(self._watch_revocations(), name="flowfabric-losses"),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Send pending commands, deregister the worker, and close it. Leases that are still held expire."""
        if self.closed:
            return
        self.closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.outbox.drain()
        await self.renewer.close()
        try:
            await self.store.apply(
                MarkWorkerDead(
                    worker_instance_id=self.instance_id, namespace=self._namespace, reason="stopped"
                )
            )
        except FlowFabricError as error:
            log.info("the store was not told that the worker stopped: %s", error)
        if self._owns_store:
            await self.store.close()

    @property
    def free(self) -> int:
        """How many more tasks the worker may hold."""
        return self._permits

    # Claiming.

    async def claim(
        self, max_tasks: int = 1, *, wait: Duration = 0, kinds: tuple[str, ...] | None = None
    ) -> list[ClaimedTask]:
        """Claim up to `max_tasks` tasks, of some kinds or of all; if there are none, wait up to `wait` for one.

        Claims nothing while every permit is in use. A claim whose answer was lost is repeated.
        """
        wait_ms = millis(wait, "wait")
        tasks: list[ClaimedTask] = []
        if not wait_ms or self.looks_first:
            tasks = await self._take(partial(claim_when_ready, self.store), max_tasks, kinds)
        if wait_ms and not tasks:
            tasks = await self.claim_within(wait_ms, max_tasks, kinds)
        return tasks

    async def claim_now(self, max_tasks: int, kinds: tuple[str, ...] | None = None) -> list[ClaimedTask]:
        """Claim without waiting. A caller that is cancelled before the answer leaves leases that must expire."""
        return await self._take(self.store.apply, max_tasks, kinds)

    async def claim_within(
        self, wait_ms: int, max_tasks: int, kinds: tuple[str, ...] | None = None
    ) -> list[ClaimedTask]:
        """Wait for tasks. When their leases began is unknown, so they count as a fifth of their TTL old."""
        ask = partial(claim_when_ready, self.store, wait_ms=wait_ms)
        return await self._take(ask, max_tasks, kinds, age=self.lease_ttl_ms / 5_000)

    async def _take(
        self,
        ask: Callable[[Claim], Awaitable[Claimed]],
        max_tasks: int,
        kinds: tuple[str, ...] | None,
        age: float = 0.0,
    ) -> list[ClaimedTask]:
        count = min(max_tasks, self._permits, MAX_TASKS_PER_CLAIM)
        if count <= 0:
            return []
        claim = self._unanswered = self._unanswered or self._claim(count, kinds)
        sent = time.monotonic()
        claimed = await ask(claim)
        self._unanswered = None
        return self.adopt(claimed.tasks, time.monotonic() - age if age else sent)

    def _claim(self, count: int, kinds: tuple[str, ...] | None) -> Claim:
        self._kinds = kinds
        return Claim(
            worker_id=self.worker_id,
            worker_instance_id=self.instance_id,
            lanes=self.settings.lanes,
            kinds=kinds,
            namespace=self.settings.namespace,
            capabilities=self.settings.capabilities,
            mint=new_uuid(),
            claim_id=secrets.token_hex(16),
            max_tasks=count,
            lease_ttl_ms=self.lease_ttl_ms,
        )

    def adopt(self, tasks: Sequence[Task], since: float) -> list[ClaimedTask]:
        """Take over tasks that were claimed for this worker: each uses a permit, and its lease is renewed."""
        return [self._held(task, since) for task in tasks]

    async def claim_from_grant(self, grant: Granted) -> ClaimedTask:
        """Claim the execution of a grant, whether it is new or interrupted."""
        try:
            return await self._by_name(
                ClaimGranted(
                    execution_id=grant.execution_id,
                    worker_id=self.worker_id,
                    worker_instance_id=self.instance_id,
                    lease_id=new_uuid(),
                    attempt_id=new_uuid(),
                    lease_ttl_ms=self.lease_ttl_ms,
                )
            )
        except FlowFabricError as error:
            if error.code != "use_claim_resumed_execution":
                raise
        return await self.claim_from_resume_grant(grant)

    async def claim_from_resume_grant(self, grant: Granted) -> ClaimedTask:
        """Claim the interrupted execution of a grant: the same attempt under a new lease."""
        return await self._by_name(
            ClaimResumed(
                execution_id=grant.execution_id,
                worker_id=self.worker_id,
                worker_instance_id=self.instance_id,
                lease_id=new_uuid(),
                lease_ttl_ms=self.lease_ttl_ms,
            )
        )

    async def claim_from_reclaim_grant(
        self, grant: Granted, max_reclaim_count: int | None = None
    ) -> ClaimedTask:
        """Claim the execution of a reclaim grant, whose former lease is gone."""
        return await self._by_name(
            Reclaim(
                execution_id=grant.execution_id,
                worker_id=self.worker_id,
                worker_instance_id=self.instance_id,
                lease_id=new_uuid(),
                attempt_id=new_uuid(),
                lease_ttl_ms=self.lease_ttl_ms,
                max_reclaim_count=max_reclaim_count,
            )
        )

    async def _by_name(self, command: ClaimGranted | ClaimResumed | Reclaim) -> ClaimedTask:
        if self._permits <= 0:
            raise WorkerAtCapacity
        since = time.monotonic()
        return self._held((await self.store.apply(command)).task, since)

    def _held(self, task: Task, since: float) -> ClaimedTask:
        hold = WorkerLease(task, self.lease_ttl_ms, since)
        self._permits -= 1
        self.renewer.add(hold)
        return ClaimedTask(self, task, hold)

    def let_go(self, hold: WorkerLease) -> None:
        """Stop renewing a lease, and return its permit; called once for each task."""
        self.renewer.drop(hold)
        hold.on_loss = None  # breaks a reference cycle with the task
        self._permits += 1

    # Signals, heartbeat and lost leases.

    async def deliver_signal(
        self,
        execution_id: str,
        waitpoint_id: str,
        token: str,
        signal_name: str,
        payload: bytes = b"",
        **options: Any,
    ) -> SignalAccepted | SignalDuplicate:
        """Send a signal to a waitpoint with its token. Further options are fields of `DeliverSignal`."""
        return await self.store.apply(
            DeliverSignal(
                execution_id=execution_id,
                waitpoint_id=waitpoint_id,
                waitpoint_token=token,
                signal_id=new_uuid(),
                signal_name=signal_name,
                payload=payload,
                **options,
            )
        )

    @property
    def _namespace(self) -> str:
        return self.settings.namespace or DEFAULT_NAMESPACE

    async def _send_heartbeats(self) -> None:
        """Register the worker, and send heartbeats; retry while the store is unreachable."""
        interval_ms = millis(self.settings.heartbeat, "heartbeat")
        heartbeat = HeartbeatWorker(worker_instance_id=self.instance_id, namespace=self._namespace)
        known = False
        backoff = RetryPause()
        while True:
            try:
                answer = await self.store.apply(heartbeat if known else self._registration(interval_ms))
                known = not isinstance(answer, NotRegistered)
                backoff.reset()
                if known:
                    await asyncio.sleep(interval_ms / 1000)
            except FlowFabricError as error:
                if not is_transient(error):
                    log.warning("the worker could not register: %s", error)
                    return
                await backoff.pause()

    def _registration(self, interval_ms: int) -> RegisterWorker:
        return RegisterWorker(
            worker_id=self.worker_id,
            worker_instance_id=self.instance_id,
            namespace=self._namespace,
            lanes=self.settings.lanes,
            capabilities=self.settings.capabilities,
            kinds=self._kinds,
            liveness_ttl_ms=min(3 * interval_ms, MAX_LIVENESS_MS),
        )

    async def _watch_revocations(self) -> None:
        """Renew at once whenever a lease may have been revoked, so that its handler is interrupted soon."""
        backoff = RetryPause()
        while True:
            try:
                async with self.store.subscribe([f"worker:{self.instance_id}"]) as woken:
                    backoff.reset()
                    while True:
                        await self.renewer.renew_now()  # at first, too: earlier notifications were missed
                        await woken.wait()
            except StoreClosed:
                return
            except FlowFabricError as error:
                if not is_transient(error):
                    log.info("leases that are taken away are noticed when they are renewed: %s", error)
                    return
                await backoff.pause()


def _renewal_connection(
    store: Commands, url: str, layers: Sequence[Layer]
) -> Callable[[], Awaitable[RenewalStore]] | None:
    """Return how the renewal thread opens its connection; None if the store is thread-safe."""
    if store.traits.is_thread_safe:
        return None
    loop = asyncio.get_running_loop()

    async def connect() -> RenewalStore:
        return layered(await open_store(url), layers) if url else LoopBoundStore(store, loop)

    return connect
