"""Making questions."""

from __future__ import annotations

from typing import Any

from flowfabric.model.limits import MAX_INT
from flowfabric.model.operations.access_secret import ListKids
from flowfabric.model.operations.claim import FindClaimable
from flowfabric.model.operations.lane import ListLanes
from flowfabric.model.operations.lease import CountLeases, ListLeases
from flowfabric.model.operations.read import (
    Describe,
    GetExecution,
    GetPayload,
    GetResult,
    ListAttempts,
    ReadHistory,
)
from flowfabric.model.operations.read_list import (
    CountExecutions,
    FindExecutions,
    ListExecutions,
    ListPartition,
    ListQueue,
    ReadFeed,
)
from flowfabric.model.operations.signal import ObserveSignals, ReadInbox
from flowfabric.model.operations.step import GetStep, ListSteps
from flowfabric.model.operations.stream import ReadStream, ReadSummary, TailStream
from flowfabric.model.operations.suspend_resume import GetSuspension
from flowfabric.model.operations.suspend_waitpoint import ListWaitpoints, ReadToken
from flowfabric.model.operations.timer import ReadDue
from flowfabric.model.operations.worker import ListWorkers
from flowfabric.model.state import Public
from support.simulation.making import MAKERS, Hand, maker
from support.simulation.making_work import TAGS
from support.simulation.world import KINDS, LANES, NAMESPACES, STEPS, WORKERS

for _plain in (Describe, GetExecution, GetPayload, ListAttempts, GetSuspension, ObserveSignals):

    def _about(hand: Hand, kind: Any = _plain) -> Any:
        return kind(**hand.on(hand.run()))

    MAKERS[_plain] = _about

for _bare in (ListLanes, ListWorkers, ListKids, CountExecutions):
    MAKERS[_bare] = lambda _, kind=_bare: kind()  # type: ignore[misc]


def _limit(hand: Hand) -> int:
    return hand.draw.weighted(((5, 100), (3, 1), (3, 2), (1, 0), (1, 1_001)))


@maker(GetResult)
def get_result(hand: Hand) -> GetResult:
    return GetResult(**hand.on(hand.run()), attempt_index=hand.draw.pick((None, None, 0, 1, 9)))


@maker(ReadHistory)
def read_history(hand: Hand) -> ReadHistory:
    return ReadHistory(**hand.on(hand.run()), after=hand.draw.pick((0, 0, 1, 3, 99)), limit=_limit(hand))


@maker(ListWaitpoints)
def list_waitpoints(hand: Hand) -> ListWaitpoints:
    known = hand.run()
    after = [each.waitpoint_id for each in known.waitpoints]
    return ListWaitpoints(**hand.on(known), after=hand.draw.pick(("", *after)), limit=_limit(hand))


@maker(ReadToken)
def read_token(hand: Hand) -> ReadToken:
    known = hand.run()
    ids = [each.waitpoint_id for each in known.waitpoints] or [hand.draw.uuid()]
    return ReadToken(**hand.on(known), waitpoint_id=hand.draw.pick(ids))


def _stream(hand: Hand) -> dict[str, Any]:
    known = hand.run()
    return hand.on(known) | {
        "attempt_index": hand.draw.integer(0, max(known.attempts, 1)),
        "count": hand.draw.weighted(((5, 50), (3, 2), (1, 0), (1, 10_001))),
        "exclude_best_effort": hand.draw.chance(0.3),
    }


def _cursors(hand: Hand) -> tuple[str, ...]:
    now = hand.world.now
    return (str(now), f"{now}-1", f"{now - 500}-0", f"{now + 9}")


@maker(ReadStream)
def read_stream(hand: Hand) -> ReadStream:
    low = hand.draw.pick(("start", "start", "-", *_cursors(hand)))
    return ReadStream(**_stream(hand), from_=low, to=hand.draw.pick(("end", "end", *_cursors(hand))))


@maker(TailStream)
def tail_stream(hand: Hand) -> TailStream:
    return TailStream(**_stream(hand), after=hand.draw.pick(("0-0", "start", *_cursors(hand))))


@maker(ReadSummary)
def read_summary(hand: Hand) -> ReadSummary:
    return ReadSummary(**hand.on(hand.run()), attempt_index=hand.draw.integer(0, 2))


@maker(GetStep)
def get_step(hand: Hand) -> GetStep:
    return GetStep(**hand.on(hand.run()), step_name=hand.draw.pick(STEPS))


@maker(ListSteps)
def list_steps(hand: Hand) -> ListSteps:
    return ListSteps(
        **hand.on(hand.run()),
        after=hand.draw.pick(((-1, ""), (0, ""), (1, "a"))),
        limit=_limit(hand),
        max_bytes=hand.draw.pick((0, 5, 10_000)),
    )


@maker(ListExecutions)
def list_executions(hand: Hand) -> ListExecutions:
    draw = hand.draw
    fields: dict[str, Any] = {}
    if draw.chance(0.4):
        fields["lane_id"] = draw.pick(LANES)
    if draw.chance(0.4):
        fields["states"] = tuple(draw.pick(tuple(Public)) for _ in range(draw.integer(1, 3)))
    if draw.chance(0.4):
        fields["namespace"] = draw.pick(NAMESPACES)
    if draw.chance(0.2):
        fields["execution_kind"] = draw.pick(KINDS)
    if draw.chance(0.2):
        fields["tags"] = tuple(sorted(draw.some(TAGS, 2)))
    if draw.chance(0.1):
        fields["flow_id"] = draw.uuid()
    if draw.chance(0.15):
        fields[draw.pick(("created_after", "created_before"))] = hand.soon()
    return ListExecutions(
        **fields, newest_first=draw.chance(0.5), limit=_limit(hand), after=draw.pick((0, 0, 1, 3, 7, MAX_INT))
    )


@maker(ReadInbox)
def read_inbox(hand: Hand) -> ReadInbox:
    namespace = hand.draw.pick(("", "", *NAMESPACES))
    return ReadInbox(namespace=namespace, after=hand.draw.pick((0, 0, 1, 3)), limit=_limit(hand))


@maker(ReadFeed)
def read_feed(hand: Hand) -> ReadFeed:
    return ReadFeed(after=hand.draw.pick((0, 5, 20, 40)), limit=_limit(hand))


@maker(ListLeases)
def list_leases(hand: Hand) -> ListLeases:
    return ListLeases(worker_instance_id=hand.draw.pick(WORKERS).instance)


@maker(CountLeases)
def count_leases(hand: Hand) -> CountLeases:
    ids = tuple(dict.fromkeys(worker.instance for worker in WORKERS))
    return CountLeases(worker_instance_ids=ids, namespace=hand.draw.pick(("", *NAMESPACES)))


@maker(ReadDue)
def read_due(hand: Hand) -> ReadDue:
    before = hand.draw.pick((None, None, hand.soon(), MAX_INT))
    return ReadDue(before=before, limit=hand.draw.pick((100, 2, 1)))


@maker(FindClaimable)
def find_claimable(hand: Hand) -> FindClaimable:
    draw = hand.draw
    return FindClaimable(
        lane_id=draw.pick(LANES),
        capabilities=draw.pick(WORKERS).capabilities,
        namespace=draw.pick(("", "", *NAMESPACES)),
        limit=_limit(hand),
    )


@maker(ListPartition)
def list_partition(hand: Hand) -> ListPartition:
    draw = hand.draw
    known = hand.run()
    partition = int(known.execution_id[4:].split("}")[0]) if known.execution_id.startswith("{fp:") else 0
    return ListPartition(
        partition=partition,
        namespace=draw.pick(("", "", *NAMESPACES)),
        after=draw.pick(("", "", known.execution_id)),
        limit=_limit(hand),
    )


@maker(FindExecutions)
def find_executions(hand: Hand) -> FindExecutions:
    draw = hand.draw
    uuid = hand.run().execution_id.rpartition(":")[2]
    return FindExecutions(
        prefix=uuid[: draw.pick((4, 8, 9, 36))],
        namespace=draw.pick(("", "", *NAMESPACES)),
        limit=_limit(hand),
    )


@maker(ListQueue)
def list_queue(hand: Hand) -> ListQueue:
    draw = hand.draw
    after = draw.pick(((-MAX_INT, ""), (hand.soon(), "")))
    return ListQueue(lane_id=draw.pick(LANES), after=after, limit=_limit(hand))
