"""Read one execution: its record, why it waits, its result, attempts and history."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.model import checks
from flowfabric.model.command import ExecutionQuestion, Page, check_cursor, check_limit
from flowfabric.model.conditions import OPERATOR_ONLY, TIMEOUT_ONLY, Condition, referenced_keys
from flowfabric.model.evaluation import satisfiers
from flowfabric.model.limits import MAX_INT
from flowfabric.model.machine.group import step
from flowfabric.model.machine.workspace import Workspace, granted
from flowfabric.model.operations.claim import lost_reason
from flowfabric.model.operations.worker_serving import Because, Facts, QueueState, crew_of, queue_state
from flowfabric.model.record_kinds import ATTEMPT, LANE, PAYLOAD, RESULT, SUSPENSION, IndexQuery
from flowfabric.model.records import Attempt, Event, Execution, Lane, Payload, Result
from flowfabric.model.state import Blocking, Eligibility, Ownership, Phase, Public
from flowfabric.model.times import moment, span


class GetExecution(ExecutionQuestion[Execution], frozen=True, kw_only=True):
    """Return the record of one execution as it is stored, without asking what its lane and the workers make of it."""


@step(GetExecution)
def get_execution(space: Workspace, question: GetExecution) -> Execution:
    """Return the record."""
    return space.execution(question.execution_id)


class GetPayload(ExecutionQuestion[Payload], frozen=True, kw_only=True):
    """Return the input and the policy as they were sent."""


@step(GetPayload)
def get_payload(space: Workspace, question: GetPayload) -> Payload:
    """Return what the caller sent."""
    run = space.execution(question.execution_id)
    return space.require(PAYLOAD, run.execution_id)


class ResultView(Struct, frozen=True):
    """The result of the present run; `result` is none while there is none to give."""

    public_state: Public
    result: Result | None


class GetResult(ExecutionQuestion[ResultView], frozen=True, kw_only=True):
    """Return the result of a completed execution."""

    attempt_index: int | None = None
    """None: the attempt that completed the present run."""

    def check(self) -> None:
        """Check the index."""
        super().check()
        if self.attempt_index is not None:
            checks.integer("attempt_index", self.attempt_index, 0, MAX_INT)


@step(GetResult)
def get_result(space: Workspace, question: GetResult) -> ResultView:
    """Return the result of the present run, or of a named attempt of any run."""
    run = space.execution(question.execution_id)
    index = question.attempt_index
    if index is None:
        if run.public_state is not Public.COMPLETED:
            return ResultView(run.public_state, None)
        index = run.attempt.index
    result = space.get(RESULT, run.execution_id, index)
    return ResultView(run.public_state, result)


class ListAttempts(ExecutionQuestion[tuple[Attempt, ...]], frozen=True, kw_only=True):
    """Return all attempts, the running one last."""


@step(ListAttempts)
def list_attempts(space: Workspace, question: ListAttempts) -> tuple[Attempt, ...]:
    """Return the attempts that others have followed, which have rows, and the last one inside the execution."""
    run = space.execution(question.execution_id)
    earlier = space.children(ATTEMPT, run.execution_id)
    return (*earlier, run.attempt) if run.attempt.index >= 0 else ()


class HistoryPage(Page, frozen=True):
    """Lines of history in order."""

    events: tuple[Event, ...]
    next: int


class ReadHistory(ExecutionQuestion[HistoryPage], frozen=True, kw_only=True):
    """Return history after a line number."""

    after: int = 0
    limit: int = 100

    def check(self) -> None:
        """Check cursor and limit."""
        super().check()
        check_cursor(self.after)
        check_limit(self.limit)


HISTORY: Final[IndexQuery[tuple[Event, ...]]] = IndexQuery("history")


@step(ReadHistory)
def read_history(space: Workspace, question: ReadHistory) -> HistoryPage:
    """Return lines of history; line numbers are dense, so the record knows whether more follow."""
    run = space.execution(question.execution_id)
    events = space.get(HISTORY, run.execution_id, question.after, question.limit)
    full = len(events) == question.limit and events[-1].seq < run.event_count
    return HistoryPage(events, events[-1].seq if full else 0)


class Description(Struct, frozen=True):
    """An execution as users see it: its record, and what its lane and the living workers add to it."""

    run: Execution
    """As stored, except that eligibility and blocking reason show a paused lane or a missing worker."""
    because: tuple[Because, ...]
    """Empty when it runs or has ended."""
    lane: Lane | None
    live_workers: int = 0
    """How many workers of its lane live and may take work of its namespace, as far as they were looked at."""


class Describe(ExecutionQuestion[Description], frozen=True, kw_only=True):
    """Show one execution."""


_WORDS: Final = {
    Blocking.DELAY: "delayed",
    Blocking.RESUME_DELAY: "resumed, and delayed",
    Blocking.CHILDREN: "waits until its children have ended",
    Blocking.BUDGET: "its budget is used up",
    Blocking.QUOTA: "its quota is used up",
    Blocking.CAPABLE_WORKER: "blocked until a capable worker comes",
    Blocking.OPERATOR: "paused by an operator",
    Blocking.POLICY: "paused by policy",
}
_ENDS: Final = {
    "fail": "fails",
    "cancel": "is cancelled",
    "expire": "expires",
    "auto_resume_with_timeout_signal": "goes on",
    "escalate": "waits for an operator",
}
"""What becomes of a wait that nobody ends."""


@step(Describe)
def describe(space: Workspace, question: Describe) -> Description:
    """Show one execution together with what its lane and the living workers make of it."""
    run = space.execution(question.execution_id)
    lane = space.get(LANE, run.lane_id)
    crew = crew_of(space, run)
    queue = queue_state(run, lane, crew, space.now)
    shown = run
    if run.lifecycle_phase is Phase.RUNNABLE and run.eligibility_state is Eligibility.NOW:
        shown = replace(run, eligibility_state=queue.eligibility, blocking_reason=queue.blocking)
    return Description(shown, _because(space, run, queue), lane, crew.size)


def _because(space: Workspace, run: Execution, queue: QueueState) -> tuple[Because, ...]:
    if run.lifecycle_phase is Phase.TERMINAL or run.ownership_state is Ownership.LEASED:
        return ()
    if run.lifecycle_phase is Phase.SUSPENDED:
        return (_suspended(space, run),)
    last = queue.because
    if run.lifecycle_phase is Phase.ACTIVE:
        return (_lost(run, space.now), *_promised(run, space.now), last)
    if run.eligibility_state is Eligibility.NOW:
        return (*_promised(run, space.now), last)
    return (_held_back(run, space.now),)


def _lost(run: Execution, now: int) -> Because:
    at = run.lease_revoked_at or run.lease_expired_at
    holder = f"{run.current_worker_id} ({run.current_worker_instance_id})"
    return Because(
        lost_reason(run),
        f"the lease of {holder} is gone {_since(at, now)}; waits to be reclaimed",
        {
            "worker_id": run.current_worker_id,
            "worker_instance_id": run.current_worker_instance_id,
            "since": at,
        },
    )


def _promised(run: Execution, now: int) -> tuple[Because, ...]:
    if not granted(run, now):
        return ()
    grant = run.grant[0]
    holder = f"{grant.worker_id} ({grant.worker_instance_id})"
    data: Facts = {
        "worker_id": grant.worker_id,
        "worker_instance_id": grant.worker_instance_id,
        "until": grant.expires_at,
    }
    return (Because("grant_held", f"promised to {holder} {_until(grant.expires_at, now)}", data),)


def _held_back(run: Execution, now: int) -> Because:
    if run.blocking_reason is Blocking.RETRY_BACKOFF:
        words = f"attempt {run.attempt.index} failed ({run.failure_reason}); the next one waits"
    else:
        words = _WORDS.get(run.blocking_reason, str(run.blocking_reason))
    if run.blocking_detail:
        words = f"{words}: {run.blocking_detail}"
    if run.eligibility_state is Eligibility.UNTIL_TIME:
        return Because(
            str(run.blocking_reason), f"{words} {_until(run.delay_until, now)}", {"until": run.delay_until}
        )
    since = run.blocked_at or run.last_transition_at
    return Because(str(run.blocking_reason), f"{words}, {_since(since, now)}", {"since": since})


def _suspended(space: Workspace, run: Execution) -> Because:
    suspension = space.require(SUSPENSION, run.execution_id)
    ends = run.suspension_timeout_at
    if suspension.condition.names == (TIMEOUT_ONLY,) and ends:
        return Because(str(run.blocking_reason), f"sleeps {_until(ends, space.now)}", {"until": ends})
    words = f"waits for {_awaited(suspension.condition)} {_since(suspension.created_at, space.now)}"
    came = len(satisfiers(suspension.condition))
    if came:
        words = f"{words}; {_count(came, 'signal')} counted so far"
    if ends:
        then = _ENDS.get(suspension.timeout_behavior, suspension.timeout_behavior)
        words = f"{words}; if nothing comes, it {then} at {_then(ends, space.now)}"
    data: Facts = {
        "since": suspension.created_at,
        "waitpoint_id": suspension.waitpoint_id,
    }
    return Because(str(run.blocking_reason), words, data | ({"until": ends} if ends else {}))


def _awaited(condition: Condition) -> str:
    if condition.tree:
        return f"its condition on {', '.join(referenced_keys(condition)) or 'no waitpoint'}"
    if condition.names == (OPERATOR_ONLY,):
        return "an operator"
    if not any(condition.names):
        return "any signal" if condition.minimum == 1 else f"any {condition.minimum} signals"
    if len(condition.names) == 1:
        return f"signal {condition.names[0]}"
    how_many = {"any": "one", "all": "all"}.get(condition.mode, str(condition.minimum))
    return f"{how_many} of the signals {', '.join(name or '(any)' for name in condition.names)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number or 'no'} {noun}s"


def _since(at: int, now: int) -> str:
    return f"since {moment(at, to_the_second=True)} ({span(now - at)} ago)"


def _until(at: int, now: int) -> str:
    return f"until {_then(at, now)}"


def _then(at: int, now: int) -> str:
    return f"{moment(at, to_the_second=True)} (in {span(at - now)})"
