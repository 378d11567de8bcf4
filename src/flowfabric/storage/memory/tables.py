"""Plain dictionaries that hold what the machine decided, and answer its questions by looking at everything.

Slow and obvious on purpose: every index answer is computed from the records, so that this is what the other stores
are compared with.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from flowfabric.model.command import ReadRequest
from flowfabric.model.ids import FLOW, partition_in, partition_key
from flowfabric.model.indexes import DUE_AT, DueEntry, claimable, opens, placement, queue_of
from flowfabric.model.lane_order import lane_position
from flowfabric.model.limits import FEED_AFTER_PURGE_MS
from flowfabric.model.machine.workspace import Effect, Head, LoadRequest, Workspace
from flowfabric.model.operations.read_list import (
    LOOK_AHEAD,
    FeedEntry,
    FindExecutions,
    ListExecutions,
    ListPartition,
    driven,
    found_ids,
    id_page,
    matches,
    prefix_bounds,
)
from flowfabric.model.presence import MOST_GROUPS, Group, Serving, alive, presence, presence_key
from flowfabric.model.record_kinds import (
    EXECUTION,
    IDEMPOTENCY,
    LANE,
    OWNED,
    PAYLOAD,
    STEP,
    WAITPOINT,
    WORKER,
)
from flowfabric.model.records import Event, Execution, Frame, Memo, Queue, Worker
from flowfabric.model.state import Public
from flowfabric.model.views import StepHead, head_of
from flowfabric.storage.base import Dump


class Tables:
    """Everything that a store holds."""

    def __init__(self) -> None:
        self.records: dict[str, dict[tuple[Any, ...], Any]] = defaultdict(dict)
        self.order: dict[str, int] = {}
        """When each execution came, as a number."""
        self.arrivals = 0
        self.lanes: set[str] = set()
        """Every lane that was ever used."""
        self.feed: list[FeedEntry] = []
        self.feed_position = 0
        self.feed_floor = 0
        self.gone_at: dict[int, int] = {}
        """For each line that only the feed still keeps, by its position: since when."""
        self.frames: dict[tuple[str, int], list[Frame]] = defaultdict(list)
        self.waitpoint_order: dict[tuple[str, str], int] = {}
        self.waitpoint_count = 0
        self._now = 0
        """When the present question is asked."""

    @property
    def runs(self) -> list[Execution]:
        """All executions, in the order in which they came."""
        return [self.records[EXECUTION][key,] for key in self.order]

    # Loading.

    def load(self, space: Workspace, request: LoadRequest) -> None:
        """Load what the workspace asks for."""
        self._now = space.now
        for read in request.reads:
            space.learn(read, self._answer(read))
        for head, count in request.heads.items():
            self._load_head(space, head, count)

    def _load_head(self, space: Workspace, head: Head, count: int) -> None:
        queue, namespace = head
        waiting = [
            run
            for run in self.runs
            if claimable(run) and queue_of(run) == queue and namespace in {"", run.namespace}
        ]
        waiting.sort(key=lane_position)
        best = waiting[:count]
        for run in best:
            space.learn((EXECUTION, (run.execution_id,)), run)
            payload = (PAYLOAD, (run.execution_id,))
            space.learn(payload, self._answer(payload))
        space.learn_head(head, [run.execution_id for run in best], len(waiting) <= count)

    def _answer(self, read: ReadRequest) -> Any:
        kind, key = read
        if kind.endswith("*"):
            size = len(key)
            return [full[size:] for full in self.records[kind[:-1]] if full[:size] == key]
        question = getattr(self, f"_{kind}", None)
        return question(*key) if question else self.records[kind].get(key)

    def _routes(self, lane_id: str) -> tuple[Queue, ...]:
        return tuple(
            dict.fromkeys(queue_of(run) for run in self.runs if run.lane_id == lane_id and claimable(run))
        )

    def _leases(self, instance: str, claim_id: str | None) -> tuple[str, ...]:
        held = ((run.execution_id, placement(run)) for run in self.runs)
        return tuple(
            sorted(
                execution_id
                for execution_id, place in held
                if place.lease_of == instance and claim_id in {None, place.claim_id}
            )
        )

    def _history(self, execution_id: str, after: int, limit: int) -> tuple[Event, ...]:
        lines = [
            entry.event
            for entry in self.feed
            if entry.execution_id == execution_id and entry.event.seq > after
        ]
        return tuple(lines[:limit])

    def _frames(
        self,
        execution_id: str,
        attempt: int,
        from_ms: int,
        from_seq: int,
        to_ms: int,
        to_seq: int,
        count: int,
    ) -> tuple[Frame, ...]:
        low, high = (from_ms, from_seq), (to_ms, to_seq)
        kept = [f for f in self.frames[execution_id, attempt] if low <= (f.ms, f.seq) <= high]
        return tuple(kept[:count])

    def _heads(self, execution_id: str) -> tuple[StepHead, ...]:
        steps = (step for key, step in self.records[STEP].items() if key[0] == execution_id)
        return tuple(sorted(map(head_of, steps), key=lambda head: (head.call_index, head.name)))

    def _steps(self, execution_id: str, call_index: int, name: str, limit: int) -> tuple[StepHead, ...]:
        heads = self._heads(execution_id)
        return tuple(head for head in heads if (head.call_index, head.name) > (call_index, name))[:limit]

    def _executions(self, question: ListExecutions) -> tuple[tuple[Execution, ...], int]:
        ordered = sorted(self.order.items(), key=lambda item: item[1], reverse=question.newest_first)
        seen = 0
        found: list[Execution] = []
        last = 0
        for execution_id, place in ordered:
            run = self.records[EXECUTION][execution_id,]
            if not _beyond(question, place) or not driven(question, run):
                continue
            if seen == question.limit * LOOK_AHEAD or len(found) == question.limit:
                return tuple(found), last
            seen += 1
            last = place
            if matches(question, run):
                found.append(run)
        return tuple(found), 0

    def _queue(self, lane_id: str, after_score: int, after_id: str, limit: int) -> tuple[Execution, ...]:
        waiting = [run for run in self.runs if run.lane_id == lane_id and claimable(run)]
        waiting.sort(key=lane_position)
        later = [run for run in waiting if lane_position(run) > (after_score, after_id)]
        return tuple(later[:limit])

    def _ids(self, namespace: str) -> list[str]:
        return sorted(run.execution_id for run in self.runs if namespace in {"", run.namespace})

    def _partition(self, question: ListPartition) -> tuple[tuple[str, ...], str]:
        low, high = question.bounds()
        return id_page(question, [each for each in self._ids(question.namespace) if low < each < high])

    def _found(self, question: FindExecutions) -> tuple[str, ...]:
        found: list[str] = []
        ids = self._ids(question.namespace)
        for tag in {partition_key(FLOW, partition_in(each)) for each in ids}:
            low, high = prefix_bounds(question, tag)
            found += [each for each in ids if low <= each < high]
        return found_ids(question, found)

    def _inbox(self, namespace: str, after: int, limit: int) -> tuple[tuple[int, str, Any], ...]:
        rows = [
            (place, key[0], self.records[WAITPOINT][key])
            for key, place in self.waitpoint_order.items()
            if place > after
            and self.records[WAITPOINT][key].state != "closed"
            and namespace in {"", self.records[EXECUTION][key[0],].namespace}
        ]
        return tuple(sorted(rows, key=lambda row: row[0])[:limit])

    def _feed(self, after: int, limit: int) -> tuple[FeedEntry, ...]:
        past: list[FeedEntry] = list(self.records["past"].values())
        later = [entry for entry in (*self.feed, *past) if entry.position > after]
        return tuple(sorted(later, key=lambda entry: entry.position)[:limit])

    def _feed_bounds(self) -> tuple[int, int]:
        return self.feed_floor, self.feed_position

    def _held(self, instance: str, namespace: str) -> int:
        runs = (self.records[EXECUTION][held,] for held in self._leases(instance, None))
        return sum(namespace in {"", run.namespace} for run in runs)

    def _living(self) -> list[Worker]:
        known: list[Worker] = [self.records[WORKER][key] for key in sorted(self.records[WORKER])]
        return [worker for worker in known if alive(worker, self._now)]

    def _workers(self, namespace: str, *after_and_limit: Any) -> tuple[Worker, ...]:
        *after, limit = after_and_limit
        living = (worker for worker in self._living() if namespace in {"", worker.namespace})
        later = [each for each in living if (each.namespace, each.worker_instance_id) > tuple(after)]
        return tuple(later[:limit])

    def _serving(self, namespace: str, lane_id: str) -> Serving:
        living = [each for each in self._living() if each.namespace == namespace and lane_id in each.lanes]
        groups = Counter((worker.capabilities, worker.kinds) for worker in living)
        found = tuple(Group(*words, n) for words, n in groups.items())
        return Serving(found[:MOST_GROUPS], len(found) <= MOST_GROUPS)

    def _totals(self, namespace: str) -> tuple[tuple[Public, int], ...]:
        runs = (run for run in self.runs if namespace in {"", run.namespace})
        return tuple(Counter(run.public_state for run in runs).items())

    def _lanes(
        self, namespace: str, after: str, limit: int
    ) -> tuple[tuple[str, tuple[tuple[Public, int], ...], int], ...]:
        if namespace:
            counted: dict[str, Counter[Public]] = defaultdict(Counter)
            for run in self.runs:
                if run.namespace == namespace and run.lane_id > after:
                    counted[run.lane_id][run.public_state] += 1
            rows = [(name, tuple(sorted(counts.items())), 0) for name, counts in sorted(counted.items())]
            return tuple(rows[:limit])
        names = {name for name in self.lanes | {key[0] for key in self.records[LANE]} if name > after}
        rows = []
        for name in sorted(names)[:limit]:
            runs = [run for run in self.runs if run.lane_id == name]
            counts = Counter(run.public_state for run in runs)
            oldest = [run.created_at for run in runs if run.public_state is Public.WAITING]
            rows.append((name, tuple(sorted(counts.items())), oldest[0] if oldest else 0))
        return tuple(rows)

    def _due(self, before: int, limit: int) -> tuple[tuple[DueEntry, ...], int]:
        entries = [
            DueEntry(kind, key, at, record)
            for kind, due_at in DUE_AT.items()
            for key, record in self.records[kind].items()
            if (at := due_at(record))
        ]
        entries.sort(key=lambda entry: (entry.at, entry.kind, entry.key))
        due = [entry for entry in entries if entry.at <= before]
        return tuple(due[:limit]), min((entry.at for entry in entries if entry.at > before), default=0)

    # Saving.

    def save(self, space: Workspace) -> None:
        """Take over what a step changed."""
        for (kind, key), old, new in space.changes():
            if kind == EXECUTION and new is not None and key[0] not in self.order:
                self.arrivals += 1
                self.order[key[0]] = self.arrivals
                self.lanes.add(new.lane_id)
            if kind == WAITPOINT and new is not None and opens(old, new):
                self.waitpoint_count += 1
                self.waitpoint_order[key] = self.waitpoint_count
            if new is None:
                self.records[kind].pop(key, None)
            else:
                self.records[kind][key] = new
        for execution_id, event in space.events:
            self._tell(space, execution_id, event)
        for effect in space.effects:
            getattr(self, f"_on_{effect.kind}")(space, effect)

    def _tell(self, space: Workspace, execution_id: str, event: Event) -> None:
        run = space.current[EXECUTION, (execution_id,)]
        self.feed_position += 1
        self.feed.append(
            FeedEntry(
                self.feed_position,
                run.execution_id,
                run.namespace,
                run.lane_id,
                run.execution_kind,
                run.flow_id,
                event,
            )
        )

    def _on_frame(self, _: Workspace, effect: Effect) -> None:
        self.frames[effect.key].append(effect.value)

    def _on_trim(self, _: Workspace, effect: Effect) -> None:
        self.frames[effect.key] = [f for f in self.frames[effect.key] if f.number >= effect.value]

    def _on_drop_steps(self, _: Workspace, effect: Effect) -> None:
        self._forget(STEP, effect.key[0])

    def _on_purge(self, space: Workspace, effect: Effect) -> None:
        gone = effect.key[0]
        self.order.pop(gone, None)
        for kind in OWNED:
            self._forget(kind, gone)
        for entry in self.feed:
            if entry.execution_id == gone:
                self.records["past"][entry.position,] = entry
                self.gone_at[entry.position] = space.now
        self.feed = [entry for entry in self.feed if entry.execution_id != gone]
        for key in [key for key in self.frames if key[0] == gone]:
            del self.frames[key]
        for waitpoint in [key for key in self.waitpoint_order if key[0] == gone]:
            del self.waitpoint_order[waitpoint]

    def _on_seen(self, space: Workspace, effect: Effect) -> None:
        if effect.value is None:
            return
        key = presence_key(effect.value)
        worker = presence(effect.value, self.records[WORKER].get(key), space.now)
        if worker is not None:
            self.records[WORKER][key] = worker

    def _forget(self, kind: str, execution_id: str) -> None:
        for key in [key for key in self.records[kind] if key[0] == execution_id]:
            del self.records[kind][key]

    def collect(self, now: int, limit: int) -> int:
        """Delete what has expired and is never read again."""
        memos: dict[tuple[Any, ...], Memo] = self.records[IDEMPOTENCY]
        gone = [key for key, memo in memos.items() if memo.expires_at <= now][:limit]
        for key in gone:
            del memos[key]
        workers: dict[tuple[Any, ...], Worker] = self.records[WORKER]
        dead = [key for key, worker in workers.items() if not alive(worker, now)][:limit]
        for key in dead:
            del workers[key]
        return len(gone) + len(dead) + self._forget_past(now - FEED_AFTER_PURGE_MS, limit)

    def _forget_past(self, before: int, limit: int) -> int:
        old = sorted((at, position) for position, at in self.gone_at.items() if at <= before)[:limit]
        for _, position in old:
            del self.gone_at[position]
            del self.records["past"][position,]
            self.feed_floor = max(self.feed_floor, position)
        return len(old)

    def dump(self) -> Dump:
        """Return everything."""
        counts = Counter((run.lane_id, run.namespace, str(run.public_state)) for run in self.runs)
        history: dict[str, list[Event]] = defaultdict(list)
        for entry in self.feed:
            history[entry.execution_id].append(entry.event)
        return Dump(
            records={kind: dict(rows) for kind, rows in self.records.items() if rows},
            indexes={run.execution_id: {"placement": placement(run)} for run in self.runs},
            history={key: tuple(lines) for key, lines in history.items()},
            frames={key: tuple(rows) for key, rows in self.frames.items() if rows},
            counts=dict(counts),
        )


def _beyond(question: ListExecutions, place: int) -> bool:
    if not question.after:
        return True
    return place < question.after if question.newest_first else place > question.after
