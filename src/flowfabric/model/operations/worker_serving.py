"""Who could take work that is claimable: the live workers of its lane, and what keeps all of them from it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final, NamedTuple

from msgspec import Struct

from flowfabric.model.checks import missing_capabilities
from flowfabric.model.machine.workspace import Workspace
from flowfabric.model.presence import DEFAULT_NAMESPACE, Group, Serving
from flowfabric.model.record_kinds import IndexQuery
from flowfabric.model.records import Execution, Lane
from flowfabric.model.state import Blocking, Eligibility
from flowfabric.model.times import moment, span

Facts = dict[str, str | int | tuple[str, ...]]


class Because(Struct, frozen=True):
    """One reason why an execution does not run now, in a word, in a sentence and as data."""

    reason: str
    detail: str
    data: Facts = {}
    """What the sentence says, for programs: names and numbers."""


NO_WORKER_FOR_KIND: Final = "no_worker_for_kind"
MOST_KINDS: Final = 100
"""How many kinds an answer names."""
_FEW: Final = 10
"""How many of them a sentence names."""


class QueueState(NamedTuple):
    """What stands between claimable work and a worker."""

    eligibility: Eligibility
    blocking: Blocking
    because: Because


class Crew(NamedTuple):
    """The live workers of a lane that may take work of a namespace."""

    groups: tuple[Group, ...]
    whole: bool

    @property
    def size(self) -> int:
        """How many there are, as far as they were looked at."""
        return sum(group.workers for group in self.groups)

    def takers(self, kind: str) -> Crew:
        """Those that take a kind."""
        return Crew(tuple(each for each in self.groups if not each.kinds or kind in each.kinds), self.whole)

    def able(self, required: tuple[str, ...]) -> Crew:
        """Those that have what is required."""
        groups = (each for each in self.groups if not missing_capabilities(required, each.capabilities))
        return Crew(tuple(groups), self.whole)

    def kinds(self) -> list[str]:
        """What they take, by name; empty when one of them takes any kind."""
        return sorted({kind for group in self.groups for kind in group.kinds})


SERVING: Final[IndexQuery[Serving]] = IndexQuery("serving")


def crew_of(space: Workspace, run: Execution) -> Crew:
    """Look at the workers of its own namespace, and at those that are bound to none."""
    names = dict.fromkeys((run.namespace, DEFAULT_NAMESPACE))
    found = space.several(SERVING, ((name, run.lane_id) for name in names))
    groups = tuple(group for serving in found for group in serving.groups)
    return Crew(groups, all(serving.whole for serving in found))


def queue_state(run: Execution, lane: Lane | None, crew: Crew, now: int) -> QueueState:
    """Say what claimable work waits for: its lane, a worker, one that takes its kind, or one that can run it."""
    if lane is not None and lane.paused_at:
        why = f": {lane.pause_reason}" if lane.pause_reason else ""
        since = f"since {moment(lane.paused_at, to_the_second=True)} ({span(now - lane.paused_at)} ago)"
        told = Because(
            str(Blocking.POLICY),
            f"lane {run.lane_id} is paused {since}{why}",
            {"lane": run.lane_id, "paused_at": lane.paused_at},
        )
        return QueueState(Eligibility.LANE, Blocking.POLICY, told)
    takers = crew.takers(run.execution_kind)
    if crew.size and not takers.size and crew.whole:
        return QueueState(Eligibility.NOW, Blocking.WORKER, _nobody_takes(run, crew))
    able = takers.able(run.required_capabilities)
    if takers.size and not able.size and crew.whole:
        return QueueState(Eligibility.ROUTE, Blocking.CAPABLE_WORKER, _lacking(run, takers))
    return QueueState(Eligibility.NOW, Blocking.WORKER, _waiting(run, crew, able))


def _waiting(run: Execution, crew: Crew, able: Crew) -> Because:
    words = _living(run, crew)
    if able.size < crew.size:
        words = f"{words}, {able.size} of them able to run it"
    kinds = crew.kinds()[:MOST_KINDS] if all(group.kinds for group in crew.groups) else []
    data: Facts = {
        "lane": run.lane_id,
        "live_workers": crew.size,
        "able_workers": able.size,
        "kinds": tuple(kinds),
    }
    return Because(str(Blocking.WORKER), words, data)


def _nobody_takes(run: Execution, crew: Crew) -> Because:
    kinds = crew.kinds()
    nearest = nearest_name(run.execution_kind, kinds[:MOST_KINDS])
    words = f"no live worker takes {run.execution_kind}; {_living(run, crew)}: {_listed(kinds)}"
    if nearest:
        words = f"{words}; is {nearest} meant?"
    data: Facts = {
        "kind": run.execution_kind,
        "kinds": tuple(kinds[:MOST_KINDS]),
        "nearest": nearest,
        "lane": run.lane_id,
        "live_workers": crew.size,
    }
    return Because(NO_WORKER_FOR_KIND, words, data)


def _lacking(run: Execution, takers: Crew) -> Because:
    required = run.required_capabilities
    missing = missing_capabilities(required, {word for group in takers.groups for word in group.capabilities})
    if missing:
        words = f"needs {', '.join(missing)}, which no live worker has"
    else:
        words = f"needs {', '.join(required)}, which no live worker has all together"
    data: Facts = {
        "required": required,
        "missing": missing,
        "lane": run.lane_id,
        "live_workers": takers.size,
    }
    return Because(str(Blocking.CAPABLE_WORKER), f"{words}; {_living(run, takers)}", data)


def _living(run: Execution, crew: Crew) -> str:
    number = f"{crew.size or 'no'}" if crew.whole else f"more than {crew.size}"
    return f"{number} live worker{'' if crew.size == 1 and crew.whole else 's'} on lane {run.lane_id}"


def _listed(kinds: list[str]) -> str:
    more = len(kinds) - _FEW
    return f"they take {', '.join(kinds[:_FEW])}" + (f" and {more} more" if more > 0 else "")


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return the name that is most like another, or nothing when none is."""
    folded = {each.casefold(): each for each in known}
    found = get_close_matches(name.casefold(), folded, 1)
    return folded[found[0]] if found else ""
