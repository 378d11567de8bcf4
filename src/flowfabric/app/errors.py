"""Errors of callers: runs that did not complete, and calls that the app refuses."""

from __future__ import annotations

from flowfabric.model.errors import Conflict, FlowFabricError, NotFound


class TaskFailed(Exception):
    """The run has ended without a result. `detail` holds the traceback of its last attempt.

    ::

        try:
            await run.result()
        except TaskFailed as failure:
            print(failure.reason, failure.category, failure.detail)
    """

    word = "failed"

    def __init__(self, execution_id: str, reason: str = "", category: str = "", detail: str = "") -> None:
        self.execution_id = execution_id
        """The id of the run."""
        self.reason = reason
        """The reason in one line: `ConnectionError: refused`."""
        self.category = category
        """The kind of failure: `handler_error`, `timeout`, `permanent`, `invalid_input`, `step_mismatch`, …"""
        self.detail = detail
        """The traceback of the handler, if there is one."""
        said = f": {reason}" if reason else ""
        super().__init__(f"{execution_id} {self.word}{said}" + (f" ({category})" if category else ""))
        if detail:
            self.add_note(detail)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.execution_id, self.reason, self.category, self.detail)


class TaskCancelled(TaskFailed):
    """The run was cancelled; `reason` is the one given to `cancel`."""

    word = "was cancelled"


class TaskExpired(TaskFailed):
    """The run did not end in time: its deadline, or the timeout of an attempt or a wait, passed."""

    word = "expired"


class TaskSkipped(TaskFailed):
    """The run never started, because a run that it depended on did not complete."""

    word = "was skipped"


class _Local(FlowFabricError):
    """Base of errors that the app raises itself; their codes do not cross HTTP."""

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.text,)


class ResultExpired(_Local, NotFound):
    """The run is no longer kept: its retention is over, or no run ever had this id."""

    code = "result_expired"
    message = "no run has this id now: its retention is over, or there never was one"


class NothingWaits(_Local, Conflict):
    """No open waitpoint of the run takes this signal, or more than one does."""

    code = "nothing_waits"
    message = "no open waitpoint of the run takes this signal"


class UnknownTask(TypeError):
    """The function is not a task of this app."""


class SubmitRefused(FlowFabricError):
    """Some of several submissions were refused. Submitting the same calls again is safe: none is created twice."""

    code = "submit_refused"
    message = "some submissions were refused"

    def __init__(self, refusals: dict[int, FlowFabricError]) -> None:
        self.refusals = refusals
        """The errors by the index of their call."""
        first = min(refusals)
        super().__init__(
            f"{len(refusals)} of the calls were refused; the first, call {first}: {refusals[first]}"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.refusals,)
