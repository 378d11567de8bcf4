"""What the context of one handler is made of, and how the worker controls it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import cached_property
from typing import Any

from flowfabric.codecs import JSON, Codec
from flowfabric.worker.claimed_task import ClaimedTask
from flowfabric.worker.context.children import ChildRunner, ChildSubmitter
from flowfabric.worker.context.facts import ContextFacts, Log, task_log
from flowfabric.worker.context.hooks import CONTEXT_HOOKS
from flowfabric.worker.context.step_runner import StepRunner
from flowfabric.worker.context.stream import AttemptStream
from flowfabric.worker.context.suspension_gate import SuspensionGate
from flowfabric.worker.context.wait_runner import WaitRunner
from flowfabric.worker.steps.journal import StepJournal


class HandlerSession:
    """One run of a handler, from its call to its end: shared by the context and by the worker that runs it."""

    def __init__(
        self, task: ClaimedTask, codec: Codec = JSON, submitter: ChildSubmitter | None = None
    ) -> None:
        self.task = task
        self.codec = codec
        self.hooks = CONTEXT_HOOKS.get()
        self.journal = StepJournal(task)
        self.gate = SuspensionGate(task)
        self.stream = AttemptStream(task, codec)
        self.steps = StepRunner(task, codec, self.journal, self.gate, self.stream, self.hooks)
        self._submitter = submitter
        self._is_interrupted = False

    @cached_property
    def waits(self) -> WaitRunner:
        """Suspends the execution."""
        return WaitRunner(self.task, self.codec, self.journal, self.gate, self.stream, self.steps)

    @cached_property
    def children(self) -> ChildRunner:
        """Submits children."""
        return ChildRunner(self.task.execution_id, self.journal, self.steps, self._submitter)

    @cached_property
    def log(self) -> Log:
        """The logger of the run."""
        return task_log(self.task.execution_kind, self.task.execution_id, self.task.attempt_index)

    @cached_property
    def facts(self) -> ContextFacts:
        """What is known without asking the store."""
        return ContextFacts.of(self.task, self.codec, self.log)

    @cached_property
    def cancelled(self) -> asyncio.Event:
        """Set when the run has been cancelled."""
        return asyncio.Event()

    @cached_property
    def lost(self) -> asyncio.Event:
        """Set when the lease is gone."""
        return asyncio.Event()

    def end(self) -> None:
        """Refuse further steps and waits: the handler has ended."""
        self.gate.end()

    # Handlers in threads and processes, for which the event loop works.

    @cached_property
    def _calls(self) -> set[asyncio.Task[Any] | None]:
        return set()

    async def carry_out(self, work: Coroutine[Any, Any, Any]) -> tuple[bool, Any]:
        """Await a call for a handler outside the event loop; return whether it succeeded, and its value or exception.

        The exception is carried as a value, because a cancellation would turn into another exception on its way.
        """
        if self._is_interrupted:
            return False, asyncio.CancelledError()
        call = asyncio.current_task()
        self._calls.add(call)
        try:
            return True, await work
        except BaseException as error:  # noqa: BLE001 - it is raised where the caller waits
            return False, error
        finally:
            self._calls.discard(call)

    def interrupt(self) -> None:
        """Cancel the calls that are carried out for the handler, which would otherwise wait for them."""
        self._is_interrupted = True
        for call in self._calls:
            if call is not None:
                call.cancel()
