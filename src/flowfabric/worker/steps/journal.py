"""The journal of a run: its stored steps, and the order in which the handler calls them."""

from __future__ import annotations

import inspect
import re
from contextvars import ContextVar
from typing import Final

from flowfabric.model import checks
from flowfabric.model.errors import invalid
from flowfabric.model.operations.step import GetStep
from flowfabric.model.views import StepView
from flowfabric.worker.claimed_task import ClaimedTask
from flowfabric.worker.faults import StepMismatch

WAIT: Final = "wait:"
SLEEP: Final = "sleep"
SLEEPING: Final = "sleeping"
"""The reason code of a sleeping run, which no signal can wake."""
WAITPOINT: Final = "waitpoint:"
LINK: Final = "link:"
CHILD: Final = "submit:"
STEPS_AROUND: Final[ContextVar[tuple[str, ...]]] = ContextVar("flowfabric_steps", default=())
"""The steps inside which the current code runs, outermost first."""
_WAITS: Final = re.compile(r"sleep(#\d+)?|(wait|waitpoint|link):.*", re.DOTALL)
_OWN: Final = re.compile(r"sleep|(wait|waitpoint|link|submit):.*|.*#\d+", re.DOTALL)


def step_around() -> str:
    """Return the innermost step inside which the current code runs; empty if there is none."""
    around = STEPS_AROUND.get()
    return around[-1] if around else ""


def check_function(name: str, function: object) -> None:
    """Raise `TypeError` if a step gets no function; often it gets the result of a call instead."""
    if function is None or callable(function):
        return
    if inspect.iscoroutine(function):
        function.close()  # nobody will await it
    raise TypeError(
        f"step {name!r} needs a function and its arguments, as in ctx.step({name!r}, fetch, url); "
        f"it got {type(function).__qualname__}, which may be what the function has returned"
    )


def check_name(name: str) -> None:
    """Raise `InvalidInput` for a name that stores refuse, or that the context reserves."""
    checks.name("name", name)
    if _OWN.fullmatch(name):
        raise invalid(
            "name",
            f"{name!r} cannot be the name of a step: sleep, wait:…, waitpoint:…, link:… and submit:… are what the "
            "context itself stores, and name#2 is the second step of a name",
        )


class StepJournal:
    """The stored steps of a run. Those that came with the claim are known; further ones are read when needed."""

    def __init__(self, task: ClaimedTask) -> None:
        came = task.task.steps
        self._stored = {step.name: step for step in came}
        self._places = {step.call_index: step.name for step in came}
        self._more = task.task.step_count > len(came)
        self._task = task
        self._asked: list[str] = []
        self._repeats: dict[str, int] = {}

    def next_call(self, name: str) -> tuple[str, int]:
        """Record the next call of a step; return its unique name and its position. Raises `StepMismatch`."""
        count = self._repeats[name] = self._repeats.get(name, 0) + 1
        unique = name if count == 1 else f"{name}#{count}"
        place = len(self._asked)
        self._asked.append(unique)
        self._check(unique, place)
        return unique, place

    async def find(self, name: str) -> StepView | None:
        """Return the stored step, or None."""
        found = self._stored.get(name)
        if found is None and self._more:
            found = await self._task.ask(GetStep(execution_id=self._task.execution_id, step_name=name))
        return found

    def _check(self, name: str, place: int) -> None:
        """Raise `StepMismatch` if another step is stored at the same position.

        An empty position before it means that a step failed there and its error was caught, so later calls may differ.
        The positions of waits are assigned by the store, which counts stored steps only, so they prove nothing.
        """
        stored = self._places.get(place)
        if stored is None or stored == name or _WAITS.fullmatch(stored):
            return
        if all(earlier in self._places for earlier in range(place)):
            known = tuple(self._places[index] for index in sorted(self._places))
            raise StepMismatch(known, tuple(self._asked))
