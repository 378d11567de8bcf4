"""A claimed task whose handler is running."""

from __future__ import annotations

import asyncio
import time

from flowfabric.model.errors import FlowFabricError
from flowfabric.worker.claimed_task import ClaimedTask
from flowfabric.worker.context.session import HandlerSession
from flowfabric.worker.execution.threads import Interrupt
from flowfabric.worker.faults import Interrupted, LeaseLost
from flowfabric.worker.handlers import Handler


class RunningTask(Interrupt):
    """A task, its handler, and how to interrupt it."""

    __slots__ = ("began", "failure", "handler", "job", "session", "task")

    def __init__(self, task: ClaimedTask, handler: Handler) -> None:
        self.error = self.on_interrupt = None
        self.began = time.monotonic()
        self.task = task
        self.handler = handler
        self.session: HandlerSession | None = None
        self.failure: BaseException | None = None
        """The exception that the handler raised."""
        self.job: asyncio.Task[None] | None = None

    def stop(self, error: Interrupted) -> None:
        """Raise an interruption into the handler, once."""
        if self.interrupt(error) and self.job is not None:
            self.job.cancel()

    def interrupt(self, error: Interrupted) -> bool:
        """Record why the handler must stop, and cancel its calls; return False if it was interrupted before."""
        if not self.set(error):
            return False
        if self.session is not None:
            self.session.interrupt()
        return True

    def lose(self, error: FlowFabricError) -> None:
        """Interrupt the handler because its lease is gone."""
        if self.session is not None:
            self.session.lost.set()
            if error.code == "execution_not_active" and error.details[:1] == ("cancelled",):
                self.session.cancelled.set()
        self.stop(LeaseLost(str(error)))
