"""The claimed task, for loops written by hand."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from flowfabric.model.conditions import single
from flowfabric.model.errors import FlowFabricError, InvalidInput, NotFound, OwnershipLost, Unreachable
from flowfabric.model.ids import spread
from flowfabric.model.limits import MAX_NAME_BYTES
from flowfabric.model.operations.finish import TerminalFailed
from flowfabric.model.operations.grant import IssueClaimGrant, IssueReclaimGrant
from flowfabric.model.operations.lease import RevokeLease
from flowfabric.model.operations.suspend import SatisfiedAtOnce, Suspended
from flowfabric.storage.minting import new_uuid
from flowfabric.worker import TaskConsumed, Worker, WorkerSettings, verify_and_deliver
from flowfabric.worker.claimed_task import ClaimedTask
from flowfabric.worker.external_signals import TokenMismatch, UnknownWaitpoint
from flowfabric.worker.faults import WorkerAtCapacity
from flowfabric.worker.handlers import LONGEST_WORKER_BYTES
from flowfabric.worker.layers import Layer
from support.until import until
from support.working import Place

NO_RETRY = {"retry_policy": {"max_retries": 0}}


@asynccontextmanager
async def worker_on(place: Place, layers: tuple[Layer, ...] = (), **settings: Any) -> AsyncIterator[Worker]:
    options = {"lanes": ("default",), "lease_ttl": "10s", "concurrency": 3, **settings}
    async with await Worker.open(
        place.store, WorkerSettings(**options), url=place.url, layers=layers
    ) as worker:
        yield worker


async def one(worker: Worker) -> ClaimedTask:
    (task,) = await worker.claim(wait="10s")
    return task


async def test_a_task_says_what_it_is(place: Place) -> None:
    async with worker_on(place) as worker:
        id_ = await place.submit("work", {"a": 1}, tags=(("team", "red"),))
        task = await one(worker)
        assert (task.execution_id, task.execution_kind, task.lane_id) == (id_, "work", "default")
        assert (task.attempt_index, task.lease_epoch, task.tags) == (0, 1, {"team": "red"})
        assert task.input_payload == b'{"a":1}'
        assert task.is_lease_healthy
        await task.complete(b"1", "json")
    assert await place.result(id_) == 1


async def test_a_consumed_task_refuses_further_use(place: Place) -> None:
    async with worker_on(place) as worker:
        await place.submit("work", policy=NO_RETRY)
        task = await one(worker)
        assert isinstance(await task.fail("no", "permanent"), TerminalFailed)
        for call in (
            task.complete,
            task.renew_lease,
            task.resume_signals,
            task.update_progress,
            task.release,
        ):
            with pytest.raises(TaskConsumed, match="consumed by Fail"):
                await call()


async def test_every_way_to_give_it_back(place: Place) -> None:
    async with worker_on(place) as worker:
        id_ = await place.submit("work")
        await (await one(worker)).release("tired")
        await (await one(worker)).delay_execution(1)
        await (await one(worker)).move_to_waiting_children()
        await (await one(worker)).cancel("enough")
        assert worker.free == 3
    assert (await place.run(id_)).public_state == "cancelled"


async def test_permits(place: Place) -> None:
    async with worker_on(place, concurrency=1) as worker:
        first, second = await place.submit("work"), await place.submit("work")
        task = await one(worker)
        other = second if task.execution_id == first else first
        assert await worker.claim() == []
        grant = await place.store.apply(
            IssueClaimGrant(
                execution_id=other,
                worker_id=worker.worker_id,
                worker_instance_id=worker.instance_id,
                grant_ttl_ms=10_000,
            )
        )
        with pytest.raises(WorkerAtCapacity):
            await worker.claim_from_grant(grant)
        await task.complete()
        task = await worker.claim_from_grant(grant)
        assert worker.free == 0
        await task.complete()
        assert worker.free == 1


async def test_reclaimed_work_has_a_permit_and_is_renewed(place: Place) -> None:
    async with worker_on(place, lease_ttl="1s") as worker:
        id_ = await place.submit("work")
        task = await one(worker)
        await place.store.apply(RevokeLease(execution_id=id_))
        await until(lambda: not task.is_lease_healthy)
        with pytest.raises(OwnershipLost):
            await task.complete()
        grant = await place.store.apply(
            IssueReclaimGrant(
                execution_id=id_,
                worker_id=worker.worker_id,
                worker_instance_id=worker.instance_id,
                grant_ttl_ms=10_000,
            )
        )
        task = await worker.claim_from_reclaim_grant(grant)
        assert worker.free == 2
        since = task.hold.since
        await until(lambda: task.hold.since > since)
        await task.complete()


async def test_interrupted_work_is_claimed_by_grant_as_resumed(place: Place) -> None:
    async with worker_on(place) as worker:
        id_ = await place.submit("work")
        await (await one(worker)).delay_execution(1)
        grant = await place.store.apply(
            IssueClaimGrant(
                execution_id=id_,
                worker_id=worker.worker_id,
                worker_instance_id=worker.instance_id,
                grant_ttl_ms=10_000,
            )
        )
        task = await worker.claim_from_grant(grant)
        assert (task.attempt_index, task.lease_epoch) == (0, 2)
        await task.complete()


async def test_suspending_and_the_signals_that_end_it(place: Place) -> None:
    async with worker_on(place) as worker:
        id_ = await place.submit("work")
        outcome = await (await one(worker)).suspend(single("approval"), timeout="1d")
        assert isinstance(outcome, Suspended)
        point = outcome.waitpoint
        for wrong in ("wrong", "", "\ud800", point.waitpoint_token.upper()):
            with pytest.raises(TokenMismatch):
                await verify_and_deliver(place.store, id_, point.waitpoint_id, wrong, "go")
        nobody = spread(new_uuid(), place.store.partitions)
        with pytest.raises(UnknownWaitpoint):
            await verify_and_deliver(place.store, nobody, point.waitpoint_id, point.waitpoint_token, "go")
        await verify_and_deliver(place.store, id_, point.waitpoint_id, point.waitpoint_token, "go", b"1")
        task = await one(worker)
        (signal,) = await task.resume_signals()
        assert (signal.signal_name, signal.payload) == ("go", b"1")
        with pytest.raises(UnknownWaitpoint):
            await verify_and_deliver(place.store, id_, point.waitpoint_id, point.waitpoint_token, "go")
        await task.complete()


async def test_a_suspension_that_is_satisfied_already(place: Place) -> None:
    async with worker_on(place) as worker:
        id_ = await place.submit("work")
        task = await one(worker)
        pending = await task.create_pending_waitpoint("approval")
        await worker.deliver_signal(id_, pending.waitpoint_id, pending.waitpoint_token, "go")
        outcome = await task.try_suspend(single("approval"), pending=pending)
        assert isinstance(outcome, SatisfiedAtOnce)
        assert [view.signal_name for view in await task.resume_signals()] == ["go"]
        await task.append_frame("token", b"x")
        await task.complete()
        id_ = await place.submit("work")
        task = await one(worker)
        pending = await task.create_pending_waitpoint("approval")
        await worker.deliver_signal(id_, pending.waitpoint_id, pending.waitpoint_token, "go")
        with pytest.raises(TaskConsumed, match="use try_suspend"):
            await task.suspend(single("approval"), pending=pending)
        assert task.consumed


async def test_frames_progress_and_steps(place: Place) -> None:
    async with worker_on(place) as worker:
        id_ = await place.submit("work")
        task = await one(worker)
        first = await task.append_frame("token", b"a")
        await task.append_frame("token", b"b")
        assert [view.frame.payload for view in (await task.read_stream()).frames] == [b"a", b"b"]
        assert [view.frame.payload for view in (await task.tail_stream(first.entry_id)).frames] == [b"b"]
        await task.update_progress(10, "begun")
        await task.put_step("one", b"1")
        assert (await task.renew_lease()).expires_at > 0
        await task.complete()
    assert (await place.run(id_)).progress_pct == 10
    assert await place.steps(id_) == ["one"]


async def test_frames_of_other_modes_and_what_is_left_out(place: Place) -> None:
    async with worker_on(place) as worker:
        await place.submit("work")
        task = await one(worker)
        await task.append_frame("token", b"a")
        await task.append_frame("state", b'{"n":1}', mode="summary", patch_kind="json-merge-patch")
        await task.append_frame("noise", b"b", mode="best_effort")
        whole = await task.read_stream()
        assert [view.frame.payload for view in whole.frames] == [b"a", b'{"n":1}', b"b"]
        durable = await task.read_stream(exclude_best_effort=True)
        assert [view.frame.payload for view in durable.frames] == [b"a", b'{"n":1}']
        tail = await task.tail_stream(exclude_best_effort=True)
        assert tail.frames == durable.frames
        with pytest.raises(NotFound, match="budgets come with a later version") as refused:
            await task.report_usage("b1", [("tokens", 3)])
        assert refused.value.code == "budget_not_found"
        await task.complete()


async def test_the_signals_of_an_earlier_attempt_are_not_this_ones(place: Place) -> None:
    once = {"retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}}}
    async with worker_on(place) as worker:
        id_ = await place.submit("work", policy=once)
        task = await one(worker)
        assert await task.resume_signals() == ()
        pending = await task.create_pending_waitpoint("approval")
        outcome = await task.try_suspend_on_pending(pending, single("approval"), timeout="1d")
        assert isinstance(outcome, Suspended)
        await worker.deliver_signal(id_, pending.waitpoint_id, pending.waitpoint_token, "go")
        task = await one(worker)
        assert [view.signal_name for view in await task.resume_signals()] == ["go"]
        await task.fail("no")
        task = await one(worker)
        assert (task.attempt_index, await task.resume_signals()) == (1, ())
        await task.complete()


async def test_a_dropped_task_is_told_and_its_permit_is_free(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "flowfabric.worker")
    async with worker_on(place) as worker:
        await place.submit("work")
        task = await one(worker)
        assert worker.free == 2
        del task
        gc.collect()
        assert worker.free == 3
    assert "dropped without an end" in caplog.text


class Broken(Layer):
    """Lets calls of some names fail as a broken transport does, or refuses them."""

    def __init__(self, error: FlowFabricError, *methods: str) -> None:
        self.error, self.methods = error, set(methods)
        self.broken = 0

    def before(self, method: str) -> None:
        if method in self.methods:
            self.broken += 1
            raise self.error


async def test_a_task_stays_usable_when_only_the_transport_failed(place: Place) -> None:
    layer = Broken(Unreachable(), "complete")
    async with worker_on(place, (layer,), lease_ttl="1s") as worker:
        id_ = await place.submit("work")
        task = await one(worker)
        with pytest.raises(Unreachable):
            await task.complete(b"1", "json")
        assert not task.consumed
        since = task.hold.since
        await until(lambda: task.hold.since > since)
        layer.methods.clear()
        await task.complete(b"1", "json")
    assert await place.result(id_) == 1


async def test_renewals_that_fail_make_a_lease_unhealthy(place: Place) -> None:
    layer = Broken(Unreachable(), "renew")
    async with worker_on(place, (layer,), lease_ttl="1s") as worker:
        await place.submit("work")
        task = await one(worker)
        lost = asyncio.Event()
        task.hold.on_loss = lambda _: lost.set()
        await asyncio.wait_for(lost.wait(), 10)
        assert time.monotonic() >= task.hold.expires
        assert 3 <= task.consecutive_renewal_failures <= layer.broken
        assert not task.is_lease_healthy
        task.let_go("test")


async def test_looking_after_leases_while_the_store_is_away_counts_for_nothing(place: Place) -> None:
    layer = Broken(Unreachable(), "renew")
    async with worker_on(place, (layer,), lease_ttl="600s") as worker:
        await place.submit("work")
        task = await one(worker)
        for _ in range(5):
            await worker.renewer.renew_now()
        assert (layer.broken >= 5, task.consecutive_renewal_failures) == (True, 0)
        assert task.is_lease_healthy
        task.let_go("test")


async def test_a_refused_result_consumes_the_task(place: Place) -> None:
    async with worker_on(place) as worker:
        await place.submit("work")
        task = await one(worker)
        with pytest.raises(FlowFabricError):
            await task.complete(b"x" * 2_000_000)
        assert task.consumed


async def test_a_worker_without_lanes_is_refused(place: Place) -> None:
    with pytest.raises(InvalidInput, match="lanes"):
        await Worker.open(place.store, WorkerSettings())


async def test_nobody_guesses_the_ids_of_a_worker_and_of_its_claims(place: Place) -> None:
    async with (
        worker_on(place, worker_id="painter") as first,
        worker_on(place, worker_id="painter") as second,
    ):
        beginning = f"painter-{os.getpid()}-"
        secrets = [each.instance_id.removeprefix(beginning) for each in (first, second)]
        secrets += [worker._claim(1, None).claim_id for worker in (first, second) for _ in range(2)]
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in secrets), secrets
    assert len(set(secrets)) == len(secrets)


def test_the_longest_name_of_a_worker_leaves_room_for_its_instance() -> None:
    settings = WorkerSettings(lanes=("default",), worker_id="w" * LONGEST_WORKER_BYTES).checked()
    assert len(f"{settings.worker_id}-{2**32}-{'f' * 32}") <= MAX_NAME_BYTES
