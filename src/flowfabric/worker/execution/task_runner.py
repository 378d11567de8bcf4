"""Running one task: its handler, its deadline, and the command that ends it."""

from __future__ import annotations

import asyncio
import contextlib
import time

from flowfabric.codecs import encode_value
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.finish import Complete, Fail
from flowfabric.model.operations.lease import Release
from flowfabric.worker.execution.failures import ending, inside
from flowfabric.worker.execution.handler_caller import HandlerCaller
from flowfabric.worker.execution.processes import interruptible
from flowfabric.worker.execution.running_task import RunningTask
from flowfabric.worker.faults import DeadlinePassed, ProcessCrashed, Stopping


class TaskRunner:
    """Runs the tasks of one worker. `is_stopping` is set when the worker stops."""

    def __init__(self, caller: HandlerCaller, lease_ttl_ms: int, is_stopping: asyncio.Event) -> None:
        self._caller = caller
        self._lease_ttl_ms = lease_ttl_ms
        self._is_stopping = is_stopping
        self._guard = asyncio.create_task(asyncio.Event().wait(), name="flowfabric-guard")
        """Does nothing. It is cancelled when all tasks of the event loop are."""

    def close(self) -> None:
        """Stop watching for the cancellation of all tasks."""
        self._guard.cancel()

    async def run(self, running: RunningTask) -> Complete | Fail | Release | None:
        """Run a handler; return the command that ends its task, or None if the task is no longer held."""
        task, handler = running.task, running.handler
        timer = self._deadline(running)
        try:
            value = await interruptible(self._caller.call(running), running)
            if running.session is not None:
                await running.session.stream.flush()
            self._note_cancellation(running)
            if running.error is not None:  # the handler swallowed an interruption, which still applies
                return ending(task, running.error)
            result, encoding = encode_value(value, handler.codec)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - any exception is reported to the store
            self._note_cancellation(running, error)
            running.failure = error
            return await self._failed(running, running.error or error)
        finally:
            if timer is not None:
                timer.cancel()
            if running.session is not None:
                running.session.end()
        if task.consumed:
            return None
        return Complete(
            execution_id=task.execution_id, fence=task.task.fence, result=result, result_encoding=encoding
        )

    def _note_cancellation(self, running: RunningTask, error: BaseException | None = None) -> None:
        """Mark a handler as interrupted if it ended because the program is ending.

        That is the case if all tasks of the event loop are cancelled, as `asyncio.run` does at its end, if its own task
        was cancelled, or if its process was killed while the worker stops. A `CancelledError` that the handler caused
        itself is a failure.
        """
        assert running.job is not None
        all_cancelled = self._guard.done() or self._guard.cancelling() > 0
        cancelled = running.job.cancelling() > 0 and inside(error, asyncio.CancelledError) is not None
        killed = self._is_stopping.is_set() and inside(error, ProcessCrashed) is not None
        if all_cancelled or cancelled or killed:
            running.interrupt(Stopping("the worker was interrupted"))

    @staticmethod
    async def _failed(running: RunningTask, error: BaseException) -> Fail | Release | None:
        """Return the command that ends a failed task, after its frames are stored."""
        end = ending(running.task, error)
        if end is not None and running.session is not None:
            with contextlib.suppress(FlowFabricError, asyncio.CancelledError):
                await running.session.stream.flush()
        return end

    def _deadline(self, running: RunningTask) -> asyncio.TimerHandle | None:
        """Schedule the interruption of a handler at its deadline; the engine decides what follows."""
        task = running.task.task
        if not task.attempt_deadline_at and not task.execution_deadline_at:
            return None
        ends = [at for at in (task.attempt_deadline_at, task.execution_deadline_at) if at]
        # Deadlines are by the store's clock, which is read off the lease: it began when the claim was answered.
        left = (min(ends) - (task.lease_expires_at - self._lease_ttl_ms)) / 1000
        left -= time.monotonic() - running.task.hold.begun
        stop = DeadlinePassed("the time of this attempt is over")
        loop = asyncio.get_running_loop()
        return loop.call_later(max(0.0, left), running.stop, stop)
