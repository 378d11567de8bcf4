"""Executions that a handler submits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from flowfabric.codecs import Duration, decode_value
from flowfabric.model.errors import NotOffered
from flowfabric.worker.calls import Call
from flowfabric.worker.context.step_runner import StepRunner, untyped
from flowfabric.worker.options import NOTHING, Options
from flowfabric.worker.steps.journal import CHILD, StepJournal

R_co = TypeVar("R_co", covariant=True)


class Child(Protocol[R_co]):
    """The handle of a run that a handler has submitted. It is a `Run`, with everything that a `Run` offers."""

    @property
    def id(self) -> str:
        """The id of the child."""

    async def result(self, timeout: Duration | None = None) -> R_co:  # noqa: ASYNC109 - waiting is the purpose
        """Wait for the end of the child and return its result. The worker is occupied meanwhile."""

    async def cancel(self, reason: str = "") -> None:
        """Cancel the child."""


class ChildSubmitter(Protocol):
    """Submits children for handlers; the app implements it."""

    async def submit(
        self, key: str, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: Options
    ) -> str:
        """Submit a call and return its id. `key` is its idempotency key unless the options have one."""

    def run(self, execution_id: str, function: Any) -> Any:
        """Return the handle of a submitted child."""


class ChildRunner:
    """Submits the children of one handler, each once however often the handler runs."""

    def __init__(
        self, execution_id: str, journal: StepJournal, steps: StepRunner, submitter: ChildSubmitter | None
    ) -> None:
        self._execution_id = execution_id
        self._journal = journal
        self._steps = steps
        self._submitter = submitter
        self.by_id: dict[str, Child[Any]] = {}

    async def submit(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: Options
    ) -> Child[Any]:
        """Submit a task and store the id of its run as a step; return its handle."""
        if self._submitter is None:
            raise NotOffered(
                "this worker has no app to submit with: run it with `app.worker()` or `ff worker`"
            )
        label = function if isinstance(function, str) else getattr(function, "__name__", "task")
        if isinstance(function, Call):
            label = function.command.execution_kind
            if args or kwargs or options != NOTHING:
                raise TypeError("a call that was prepared has its arguments and options already")
        name, position = self._journal.next_call(f"{CHILD}{label}")
        found = await self._journal.find(name)
        if found is not None:
            id_ = decode_value(found.result, found.encoding, str)
        else:
            key = f"{self._execution_id}/{name}"
            id_ = await self._submitter.submit(key, function, args, kwargs, options)
            id_ = await self._steps.keep(name, position, id_, untyped)
        child: Child[Any] = self._submitter.run(id_, function)
        self.by_id[child.id] = child
        return child
