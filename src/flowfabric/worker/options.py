"""What can be said about a task, and once more about one submission of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, TypedDict

import msgspec

from flowfabric.codecs import Duration, millis
from flowfabric.model import checks
from flowfabric.model.errors import invalid
from flowfabric.model.limits import MAX_PRIORITY
from flowfabric.model.operations.kind import check_fairness_weight
from flowfabric.model.policy import parse_policy
from flowfabric.worker.faults import RETRY, category_name
from flowfabric.worker.handlers import capabilities, whole

RetryOn = str | type[BaseException]


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before each retry: the first wait, times a factor for each further one, up to the most.

    ::

        @app.task(retries=5, backoff=Backoff("200ms", most="10s"))
        async def fetch(url: str) -> str: ...
    """

    first: Duration = "1s"
    """Before the first retry."""
    most: Duration = "1m"
    """No wait is longer."""
    factor: float = 2.0
    """How much longer each wait is than the one before."""
    jitter: bool = True
    """Draw each wait between its half and its whole, so that many do not return at the same moment."""

    def policy(self) -> dict[str, Any]:
        """Write it as policies have it."""
        factor: object = self.factor
        if not isinstance(factor, int | float) or not factor >= 0:
            raise invalid("backoff.factor", f"{self.factor!r} is no factor: 2 doubles each wait")
        return {
            "type": "exponential",
            "initial_delay_ms": millis(self.first, "backoff.first"),
            "max_delay_ms": millis(self.most, "backoff.most"),
            "multiplier": self.factor,
            "jitter": self.jitter,
        }


class TaskOptions(TypedDict, total=False):
    """What can be said about a task, and about a submission of it."""

    lane: str | None
    priority: int | None
    fairness_key: str | None
    fairness_weight: int | None
    tags: Mapping[str, str] | None
    retries: int | None
    backoff: Duration | Backoff | None
    retry_on: RetryOn | Iterable[RetryOn] | None
    timeout: Duration | None
    deadline: Duration | None
    capabilities: Iterable[str] | None
    retention: Duration | None


class SubmitOptions(TaskOptions, total=False):
    """What can be said about a submission alone."""

    delay: Duration | None
    key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What can be said with `@app.task(…)`, and about some submissions with `app.options(…)`, which goes before."""

    lane: str | None = None
    """The queue that it waits in; workers serve lanes. `default` when nothing is said."""
    priority: int | None = None
    """What is more urgent in a lane: from 0, the default, to 9000. Of two equals the older one is first."""
    fairness_key: str | None = None
    """On whose behalf it runs; it is stored, and nothing is decided by it yet."""
    fairness_weight: int | None = None
    """The share of the fairness key, from 1 to 1000; it is stored with the task, and nothing is decided by it yet."""
    tags: Mapping[str, str] | None = None
    """Words of yours to find runs by; those of a submission are added to the task's."""
    retries: int | None = None
    """How often a failed attempt is followed by another one; never when nothing is said."""
    backoff: Duration | Backoff | None = None
    """How long to wait before a retry: always the same, or growing."""
    retry_on: RetryOn | Iterable[RetryOn] | None = None
    """Exceptions, or categories of failures, that are retried; none: all but final ones. `Retry` always is."""
    timeout: Duration | None = None
    """How long one attempt may run; then it is interrupted, and retried if a retry is left."""
    deadline: Duration | None = None
    """How long the whole run may take, from its submission on; then it ends as expired."""
    capabilities: Iterable[str] | None = None
    """What a worker must be able to do to take it."""
    retention: Duration | None = None
    """How long the result and everything else is kept after the end; a day when nothing is said."""
    delay: Duration | None = None
    """Of a submission: start no earlier than so long after it."""
    key: str | None = None
    """Of a submission: of two with one key the second finds the run of the first (`Run.duplicate`)."""

    @property
    def has_policy(self) -> bool:
        """Whether anything is said that policies decide."""
        return any(getattr(self, name) is not None for name in _POLICY)

    def over(self, other: Options) -> Options:
        """Return these, and the other's where these say nothing; tags are joined."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        merged = {name: getattr(other, name) if value is None else value for name, value in said.items()}
        if self.tags is not None and other.tags is not None:
            merged["tags"] = {**other.tags, **self.tags}
        return Options(**merged)

    def check(self) -> None:
        """Refuse at once what every submission would be refused for."""
        self.tag_pairs()
        if self.lane:
            checks.lane(self.lane, "lane")
        priority: object = self.priority
        if priority is not None and (type(priority) is not int or not 0 <= priority <= MAX_PRIORITY):
            wanted = f"a whole number from 0 to {MAX_PRIORITY}, the higher the earlier"
            raise invalid("priority", f"must be {wanted}; not {priority!r}")

        if self.fairness_weight is not None:
            check_fairness_weight(self.fairness_weight)

    def tag_pairs(self) -> tuple[tuple[str, str], ...]:
        """Return the tags as commands carry them."""
        return checks.tags(dict(self.tags)) if self.tags else ()

    def policy(self) -> bytes:
        """Write the policy; nothing when there is nothing to say. What is wrong in it is refused here already."""
        policy: dict[str, Any] = {}
        if self.retries is not None or self.backoff is not None or self.retry_on is not None:
            policy["retry_policy"] = self._retry()
        times = {"attempt_timeout_ms": self.timeout, "execution_deadline_ms": self.deadline}
        given = {name: millis(time, _NAMES[name]) for name, time in times.items() if time is not None}
        if given:
            policy["timeout_policy"] = given
        if self.capabilities is not None:
            policy["routing_requirements"] = {"required_capabilities": list(capabilities(self.capabilities))}
        if self.retention is not None:
            policy["stream_policy"] = {"retention_ttl_ms": millis(self.retention, "retention")}
        if not policy:
            return b""
        text = msgspec.json.encode(policy)
        parse_policy(text)
        return text

    def _retry(self) -> dict[str, Any]:
        if self.retries is None:
            raise invalid("retries", "backoff and retry_on say how to retry: say how often, too")
        retry: dict[str, Any] = {"max_retries": whole("retries", self.retries)}
        if isinstance(self.backoff, Backoff):
            retry["backoff"] = self.backoff.policy()
        elif self.backoff is not None:
            retry["backoff"] = {"type": "fixed", "delay_ms": millis(self.backoff, "backoff")}
        if self.retry_on is not None:
            retry["retryable_categories"] = [*_categories(self.retry_on), RETRY]
        return retry


def _categories(said: RetryOn | Iterable[RetryOn]) -> list[str]:
    each: tuple[Any, ...] = (said,) if isinstance(said, str | type) else tuple(said)
    for one in each:
        if not isinstance(one, str) and not (isinstance(one, type) and issubclass(one, BaseException)):
            raise invalid("retry_on", f"{one!r} is neither a kind of exception nor the name of a category")
    return [one if isinstance(one, str) else category_name(one) for one in each]


_NAMES = {"attempt_timeout_ms": "timeout", "execution_deadline_ms": "deadline"}
_POLICY = ("retries", "backoff", "retry_on", "timeout", "deadline", "capabilities", "retention")
_TASK = (*TaskOptions.__annotations__, "name", "version", "executor", "codec")
_SUBMIT = tuple(SubmitOptions.__annotations__)
NOTHING = Options()


def task_options(given: TaskOptions) -> Options:
    """Read what is said about a task."""
    _refuse_unknown(given, _TASK)
    return Options(**given)


def submit_options(given: SubmitOptions) -> Options:
    """Read what is said about submissions."""
    _refuse_unknown(given, _SUBMIT)
    return Options(**given)


def options_of(given: SubmitOptions) -> Options:
    """Read options, and refuse at once what steps and submissions would be refused for."""
    options = submit_options(given)
    options.check()
    options.policy()
    return options


def _refuse_unknown(given: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """Refuse names of no option, and those of a submission on a task."""
    for name in given:
        if name in names:
            continue
        if name in _SUBMIT:
            raise TypeError(f"{name} is no option of a task, but of a submission: app.options({name}=…)")
        near = get_close_matches(name, names, 2)
        meant = f": did you mean {' or '.join(near)}?" if near else ""
        raise TypeError(f"there is no option {name}{meant} (flowfabric.app.Options lists them all)")
