"""What holds of every store at every moment, checked on a dump."""

from __future__ import annotations

from collections import Counter
from typing import Any

from flowfabric.model.indexes import Placement, placement, scheduling_set
from flowfabric.model.machine.closing import waitpoints_of
from flowfabric.model.records import Attempt, Event, Execution, Stream, Suspension, Waitpoint
from flowfabric.model.state import (
    FINAL_LIVES,
    TERMINAL_STATES,
    AttemptState,
    Life,
    Ownership,
    Phase,
    is_legal,
    public_state,
)
from flowfabric.model.transitions import UNCHANGING, vector_of
from flowfabric.storage.base import Dump
from support.simulation.compare import Disagreement

CLAIMS = frozenset({"claimed", "resumed_claim", "reclaimed"})
OWNED = ("payload", "result", "attempt", "suspension", "waitpoint", "signal", "stream", "summary", "step")


def check_dump(dump: Dump) -> None:
    """Refuse a dump in which anything does not fit."""
    runs: dict[tuple[Any, ...], Execution] = dump.records.get("execution", {})
    view = _View(dump)
    for run in runs.values():
        view.check(run)
    ids = {key[0] for key in runs}
    _need(set(dump.indexes) == ids, "indexes hold exactly the executions", set(dump.indexes) ^ ids)
    _need(
        set(dump.history) == ids, "every execution has a history, and nothing else", set(dump.history) ^ ids
    )
    for kind in OWNED:
        orphans = {key[0] for key in dump.records.get(kind, {})} - ids
        _need(not orphans, f"no {kind} outlives its execution", orphans)
    _need({key[0] for key in dump.frames} <= ids, "no frame outlives its execution", dump.frames.keys())
    recount = Counter((run.lane_id, run.namespace, str(run.public_state)) for run in runs.values())
    _need(dump.counts == dict(recount), "tallies equal a recount", (dump.counts, recount))


def check_progress(before: Dump, after: Dump) -> None:
    """Refuse a change that loses or rewrites what was written."""
    for (execution_id,), old in before.records.get("execution", {}).items():
        new: Execution | None = after.records.get("execution", {}).get((execution_id,))
        if new is None or new.created_at != old.created_at or new.event_count < old.event_count:
            ended = old.lifecycle_phase is Phase.TERMINAL or _ended_since(after, execution_id)
            _need(new is None or ended, "only ended executions are purged", old)
            continue
        moved = [name for name in UNCHANGING if getattr(new, name) != getattr(old, name)]
        _need(not moved, "what an execution is never changes", (moved, old, new))
        _need(new.current_lease_epoch >= old.current_lease_epoch, "epochs never go back", (old, new))
        _need(new.total_attempt_count >= old.total_attempt_count, "attempts are never uncounted", (old, new))
        lines = before.history[execution_id]
        _need(after.history[execution_id][: len(lines)] == lines, "history is only appended to", execution_id)
    for key, attempt in before.records.get("attempt", {}).items():
        later = after.records.get("attempt", {}).get(key)
        same_run = (key[0],) in after.records.get("execution", {})
        _need(
            later == attempt or not same_run or later is None,
            "ended attempts stay as they are",
            (attempt, later),
        )


def _ended_since(dump: Dump, execution_id: str) -> bool:
    return execution_id in dump.history


def _need(holds: bool, rule: str, shown: Any) -> None:
    if not holds:
        raise Disagreement(f"broken: {rule}", repr(shown))


class _View:
    """A dump, sorted by execution."""

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self.by_run: dict[str, dict[str, dict[tuple[Any, ...], Any]]] = {}
        for kind in OWNED:
            for key, record in dump.records.get(kind, {}).items():
                self.by_run.setdefault(key[0], {}).setdefault(kind, {})[key[1:]] = record

    def owned(self, run: Execution, kind: str) -> dict[tuple[Any, ...], Any]:
        return self.by_run.get(run.execution_id, {}).get(kind, {})

    def check(self, run: Execution) -> None:
        _vector(run)
        _index(run, self.dump.indexes.get(run.execution_id, {}).get("placement"))
        _lease(run)
        self._attempts(run)
        _history(run, self.dump.history.get(run.execution_id, ()))
        self._waits(run)
        self._streams(run)
        _need(len(self.owned(run, "payload")) == 1, "every execution has one payload", run)
        steps = self.owned(run, "step")
        _need(run.step_count == len(steps), "steps are counted", (run.step_count, steps))

    def _attempts(self, run: Execution) -> None:
        rows: list[Attempt] = [row for _, row in sorted(self.owned(run, "attempt").items())]
        indexes = [row.index for row in rows] + [run.attempt.index] * (run.attempt.index >= 0)
        _need(
            indexes == list(range(run.total_attempt_count)),
            "attempts are numbered without gaps, and counted",
            (indexes, run.total_attempt_count),
        )
        _need(all(row.life in FINAL_LIVES for row in rows), "attempts with rows have ended", rows)
        started = sum(each.life is Life.STARTED for each in (*rows, run.attempt))
        _need(started <= 1, "at most one attempt is started", run)
        if run.attempt_state is AttemptState.RUNNING:
            _need(run.attempt.life is Life.STARTED, "a running attempt is started", run)

    def _waits(self, run: Execution) -> None:
        waitpoints: dict[tuple[Any, ...], Waitpoint] = self.owned(run, "waitpoint")
        pending = {
            (each.waitpoint_id, each.expires_at) for each in waitpoints.values() if each.state == "pending"
        }
        _need(
            pending == set(run.pending_waitpoints),
            "the record names its pending waitpoints",
            (run, waitpoints),
        )
        active = {each.waitpoint_id for each in waitpoints.values() if each.state == "active"}
        suspension: Suspension | None = self.owned(run, "suspension").get(())
        is_open = suspension is not None and not suspension.closed_at
        suspended = run.lifecycle_phase is Phase.SUSPENDED
        _need(is_open == suspended, "suspended means that a suspension is open", (run, suspension))
        if suspended and suspension is not None:
            _need(
                run.current_suspension_id == suspension.suspension_id, "the suspension is the named one", run
            )
            _need(
                active == set(waitpoints_of(suspension)), "its waitpoints are open", (suspension, waitpoints)
            )
            _need(
                run.suspension_timeout_at == suspension.timeout_at,
                "its timeout is indexed",
                (run, suspension),
            )
        else:
            _need(not active, "no waitpoint is active without a suspension", waitpoints)
            _need(not run.suspension_timeout_at, "no timeout without a suspension", run)
        for each in waitpoints.values():
            kept = sorted(key[1] for key in self.owned(run, "signal") if key[0] == each.waitpoint_id)
            _need(
                kept == list(range(each.first_signal, each.signal_count + 1)),
                "signals are kept",
                (each, kept),
            )

    def _streams(self, run: Execution) -> None:
        streams: dict[tuple[Any, ...], Stream] = self.owned(run, "stream")
        _need(
            run.has_stream == ((run.attempt.index,) in streams), "the record knows its stream", (run, streams)
        )
        for (index,), stream in streams.items():
            frames = self.dump.frames.get((run.execution_id, index), ())
            numbers = [frame.number for frame in frames]
            wanted = list(range(stream.first, stream.frame_count + 1))
            _need(numbers == wanted, "frames are kept as the stream says", (stream, numbers))
            places = [(frame.ms, frame.seq) for frame in frames]
            _need(places == sorted(set(places)), "entry ids grow", places)
            current = index == run.attempt.index and run.attempt.life not in FINAL_LIVES
            _need(
                current or bool(stream.closed_at), "the stream of an ended attempt is closed", (run, stream)
            )


def _vector(run: Execution) -> None:
    _need(is_legal(vector_of(run)), "the vector is legal", vector_of(run))
    derived = public_state(run.lifecycle_phase, run.eligibility_state, run.terminal_outcome)
    _need(run.public_state is derived, "the public state is derived", run)
    where = scheduling_set(run)
    place = placement(run)
    eligible = where == "eligible" or (where == "active" and run.ownership_state is not Ownership.LEASED)
    _need(place.claimable == eligible, "exactly one scheduling set holds it", (where, place))
    _need((where == "terminal") == (run.public_state in TERMINAL_STATES), "terminal is terminal", run)
    if where == "delayed":
        _need(0 < place.due_at <= run.delay_until, "what is delayed falls due", run)
    if where == "terminal":
        idle = not (run.current_lease_id or run.grant or run.pending_waitpoints or run.delay_until)
        _need(idle and run.completed_at > 0, "what has ended waits for nothing", run)


def _index(run: Execution, stored: Placement | None) -> None:
    _need(stored == placement(run), "the indexes follow from the record", (run, stored, placement(run)))


def _lease(run: Execution) -> None:
    place = placement(run)
    if run.ownership_state is not Ownership.LEASED:
        _need(not place.lease_of, "only leased work has a holder", run)
        return
    named = run.current_lease_id and run.current_worker_id and run.current_worker_instance_id
    _need(bool(named) and place.lease_of == run.current_worker_instance_id, "a lease has one holder", run)
    _need(0 < place.due_at <= run.lease_expires_at, "a lease falls due", run)
    _need(run.attempt.lease_epoch == run.current_lease_epoch, "the attempt knows its epoch", run)


def _history(run: Execution, lines: tuple[Event, ...]) -> None:
    _need([line.seq for line in lines] == list(range(1, run.event_count + 1)), "history is dense", lines)
    state, epoch = "", 0
    for line in lines:
        _need(line.from_state == state, "each line starts where the last one ended", (line, state))
        if state in TERMINAL_STATES and line.to_state not in TERMINAL_STATES:
            _need(line.event == "replayed", "only a replay leaves an end", line)
        expected = epoch + 1 if line.event in CLAIMS else epoch
        _need(line.lease_epoch == expected, "each claim, and nothing else, raises the epoch", (line, epoch))
        state, epoch = line.to_state, line.lease_epoch
    _need(state == run.public_state, "the last line tells the present state", (state, run.public_state))
    _need(epoch == run.current_lease_epoch, "the last line tells the present epoch", (epoch, run))
