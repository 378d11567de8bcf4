"""How runs end other than well, as errors of whoever waits for them."""

from __future__ import annotations

from flowfabric.model.errors import Conflict, FlowFabricError, NotFound


class TaskFailed(Exception):
    """The run has ended without a result; the traceback of its last attempt is kept in `detail`.

    ::

        try:
            await run.result()
        except TaskFailed as failure:
            print(failure.reason, failure.category, failure.detail)
    """

    word = "failed"

    def __init__(self, execution_id: str, reason: str = "", category: str = "", detail: str = "") -> None:
        self.execution_id = execution_id
        """Which run it was."""
        self.reason = reason
        """Why, in a sentence: `ConnectionError: refused`."""
        self.category = category
        """What kind of failure: `handler_error`, `timeout`, `permanent`, `invalid_input`, `step_mismatch`, …"""
        self.detail = detail
        """The traceback of the handler, as far as it was sent along."""
        said = f": {reason}" if reason else ""
        super().__init__(f"{execution_id} {self.word}{said}" + (f" ({category})" if category else ""))
        if detail:
            self.add_note(detail)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.execution_id, self.reason, self.category, self.detail)


class TaskCancelled(TaskFailed):
    """The run was cancelled; `reason` is what was said then."""

    word = "was cancelled"


class TaskExpired(TaskFailed):
    """The run has not ended in time: its deadline, the time of an attempt or of a wait was over."""

    word = "expired"


class TaskSkipped(TaskFailed):
    """The run never started, because what it depended on did not come to pass."""

    word = "was skipped"


class _Local(FlowFabricError):
    """Raised on this side of the store only, so it has no code that others know."""

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.text,)


class ResultExpired(_Local, NotFound):
    """The run is no longer kept: its retention is over, or there never was one with this id."""

    code = "result_expired"
    message = "no run has this id now: its retention is over, or there never was one"


class NothingWaits(_Local, Conflict):
    """No open waitpoint of the run takes this signal, or more than one does."""

    code = "nothing_waits"
    message = "no open waitpoint of the run takes this signal"


class UnknownTask(TypeError):
    """The function is no task of this app."""


class SubmitRefused(FlowFabricError):
    """Some of many submissions were refused. Sending the same calls again is safe: none is created twice."""

    code = "submit_refused"
    message = "some submissions were refused"

    def __init__(self, refusals: dict[int, FlowFabricError]) -> None:
        self.refusals = refusals
        """By the place of the call."""
        first = min(refusals)
        super().__init__(
            f"{len(refusals)} of the calls were refused; the first, call {first}: {refusals[first]}"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.refusals,)
