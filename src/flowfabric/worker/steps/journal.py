"""Which steps of a run are stored, and whether the handler asks for them in the order in which they were."""

from __future__ import annotations

import inspect
import re
from contextvars import ContextVar
from typing import Final

from flowfabric.model import checks
from flowfabric.model.contracts.lease import StepView
from flowfabric.model.contracts.reads import GetStep
from flowfabric.model.errors import invalid
from flowfabric.worker.claimed_task import ClaimedTask
from flowfabric.worker.faults import StepMismatch

WAIT: Final = "wait:"
SLEEP: Final = "sleep"
SLEEPING: Final = "sleeping"
"""Why a run is suspended that sleeps: no signal can wake it."""
WAITPOINT: Final = "waitpoint:"
LINK: Final = "link:"
CHILD: Final = "submit:"
STEPS_AROUND: Final[ContextVar[tuple[str, ...]]] = ContextVar("flowfabric_steps", default=())
"""The steps inside which the present call runs, outermost first."""
_WAITS: Final = re.compile(r"sleep(#\d+)?|(wait|waitpoint|link):.*", re.DOTALL)
_OWN: Final = re.compile(r"sleep|(wait|waitpoint|link|submit):.*|.*#\d+", re.DOTALL)


def step_around() -> str:
    """Name the innermost step inside which the present call runs; empty: there is none."""
    around = STEPS_AROUND.get()
    return around[-1] if around else ""


def check_function(name: str, function: object) -> None:
    """Refuse what cannot be called: most often it was called already."""
    if function is None or callable(function):
        return
    if inspect.iscoroutine(function):
        function.close()  # nobody will await it
    raise TypeError(
        f"step {name!r} needs a function and its arguments, as in ctx.step({name!r}, fetch, url); "
        f"it got {type(function).__qualname__}, which may be what the function has returned"
    )


def check_name(name: str) -> None:
    """Refuse a name that a store does not keep, or that the context gives to steps of its own and to repeats."""
    checks.name("name", name)
    if _OWN.fullmatch(name):
        raise invalid(
            "name",
            f"{name!r} cannot be the name of a step: sleep, wait:…, waitpoint:…, link:… and submit:… are what the "
            "context itself stores, and name#2 is the second step of a name",
        )


class StepJournal:
    """The steps of one run of a handler: those that came with its task, and those that did not fit into it."""

    def __init__(self, task: ClaimedTask) -> None:
        came = task.task.steps
        self._stored = {step.name: step for step in came}
        self._places = {step.call_index: step.name for step in came}
        self._more = task.task.step_count > len(came)
        self._task = task
        self._asked: list[str] = []
        self._repeats: dict[str, int] = {}

    def next_call(self, name: str) -> tuple[str, int]:
        """Ask for the next step: its name, with a number when it repeats, and its place among the calls."""
        count = self._repeats[name] = self._repeats.get(name, 0) + 1
        unique = name if count == 1 else f"{name}#{count}"
        place = len(self._asked)
        self._asked.append(unique)
        self._check(unique, place)
        return unique, place

    async def find(self, name: str) -> StepView | None:
        """Return what is stored of a step, if anything is."""
        found = self._stored.get(name)
        if found is None and self._more:
            found = await self._task.ask(GetStep(execution_id=self._task.execution_id, step_name=name))
        return found

    def _check(self, name: str, place: int) -> None:
        """Compare with what is stored at the same place.

        A place before it that is empty means that a step failed there and was caught: the calls after it may differ
        with reason. The places of waits are the store's, which counts only what is stored, so they prove nothing.
        """
        stored = self._places.get(place)
        if stored is None or stored == name or _WAITS.fullmatch(stored):
            return
        if all(earlier in self._places for earlier in range(place)):
            known = tuple(self._places[index] for index in sorted(self._places))
            raise StepMismatch(known, tuple(self._asked))
