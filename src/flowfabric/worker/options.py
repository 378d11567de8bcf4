"""The options of tasks and of single submissions."""

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
    """Exponential backoff: how long to wait before each retry.

    ::

        @app.task(retries=5, backoff=Backoff("200ms", most="10s"))
        async def fetch(url: str) -> str: ...
    """

    first: Duration = "1s"
    """The wait before the first retry."""
    most: Duration = "1m"
    """The longest wait."""
    factor: float = 2.0
    """How many times longer each wait is than the one before."""
    jitter: bool = True
    """Draw each wait at random between half and all of it, so that many retries do not happen at the same moment."""

    def policy(self) -> dict[str, Any]:
        """Return the backoff as part of a retry policy."""
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
    """The keyword arguments of `@app.task`."""

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
    """The keyword arguments of `app.options`."""

    delay: Duration | None
    key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a task, `@app.task(…)`, and of submissions, `app.options(…)`, which override them."""

    lane: str | None = None
    """The lane in which runs wait for a worker; workers serve lanes. By default, `default`."""
    priority: int | None = None
    """From 0, the default, to 9000: higher first within a lane; of equal priorities, the older run first."""
    fairness_key: str | None = None
    """The tenant on whose behalf it runs. It is stored, but has no effect yet."""
    fairness_weight: int | None = None
    """The share of the fairness key, from 1 to 1000. It is stored with the task, but has no effect yet."""
    tags: Mapping[str, str] | None = None
    """Tags to find runs by. The tags of a submission are added to those of its task."""
    retries: int | None = None
    """How often a failed attempt is retried; by default, never."""
    backoff: Duration | Backoff | None = None
    """How long to wait before each retry: a constant duration, or a `Backoff`."""
    retry_on: RetryOn | Iterable[RetryOn] | None = None
    """Exceptions, or categories of failures, that are retried; by default all but permanent ones. `Retry` always is."""
    timeout: Duration | None = None
    """How long one attempt may run. Then it is interrupted, and retried if a retry is left."""
    deadline: Duration | None = None
    """How long the whole run may take from its submission. Then it ends as expired."""
    capabilities: Iterable[str] | None = None
    """The capabilities that a worker must have to run it."""
    retention: Duration | None = None
    """How long the run and its result are kept after its end; by default, one day."""
    delay: Duration | None = None
    """For submissions: how long to wait before the run may start."""
    key: str | None = None
    """For submissions: an idempotency key. A second one with the same key returns the first run (`Run.duplicate`)."""

    @property
    def has_policy(self) -> bool:
        """Whether any option is part of the execution policy."""
        return any(getattr(self, name) is not None for name in _POLICY)

    def over(self, other: Options) -> Options:
        """Return these options, with those of `other` where these are not set; tags are merged."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        merged = {name: getattr(other, name) if value is None else value for name, value in said.items()}
        if self.tags is not None and other.tags is not None:
            merged["tags"] = {**other.tags, **self.tags}
        return Options(**merged)

    def check(self) -> None:
        """Raise `InvalidInput` for options that every submission would be refused for."""
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
        """Return the tags in the form of commands."""
        return checks.tags(dict(self.tags)) if self.tags else ()

    def policy(self) -> bytes:
        """Return the checked execution policy as JSON; empty if no option is part of it."""
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
    """Return the options of a task."""
    _refuse_unknown(given, _TASK)
    return Options(**given)


def submit_options(given: SubmitOptions) -> Options:
    """Return the options of submissions."""
    _refuse_unknown(given, _SUBMIT)
    return Options(**given)


def options_of(given: SubmitOptions) -> Options:
    """Return the checked options of steps and submissions."""
    options = submit_options(given)
    options.check()
    options.policy()
    return options


def _refuse_unknown(given: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """Raise `TypeError` for unknown options, and for options of submissions on a task."""
    for name in given:
        if name in names:
            continue
        if name in _SUBMIT:
            raise TypeError(f"{name} is no option of a task, but of a submission: app.options({name}=…)")
        near = get_close_matches(name, names, 2)
        meant = f": did you mean {' or '.join(near)}?" if near else ""
        raise TypeError(f"there is no option {name}{meant} (flowfabric.app.Options lists them all)")
