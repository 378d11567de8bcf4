"""Reporting the outcomes of handlers to the store, and logging failures."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.finish import Complete, Fail, RetryScheduled
from flowfabric.model.operations.lease import Release
from flowfabric.model.times import moment
from flowfabric.worker.claimed_task import ClaimedTask
from flowfabric.worker.execution.failures import refusal, traceback_of
from flowfabric.worker.faults import is_loss
from flowfabric.worker.outbox import Outbox, is_transient

log = logging.getLogger("flowfabric.worker")

Ending = Complete | Fail | Release


class OutcomeReporter:
    """Sends the outcomes of tasks in the background. `changed` is called after each answer."""

    def __init__(self, outbox: Outbox, changed: Callable[[], None]) -> None:
        self._outbox = outbox
        self._changed = changed
        self._unanswered = 0
        self._repeats: set[asyncio.Task[None]] = set()

    @property
    def pending(self) -> bool:
        """Whether outcomes are not yet answered by the store."""
        return bool(self._unanswered or self._repeats)

    def tell(self, task: ClaimedTask, command: Ending, error: BaseException | None) -> None:
        """Send the outcome of a task without waiting for the answer; `error` is what its handler raised."""
        self._unanswered += 1
        self._outbox.tell(command, partial(self._told, task, command, error))

    def _told(self, task: ClaimedTask, command: Ending, error: BaseException | None, reply: Any) -> None:
        self._unanswered -= 1
        if isinstance(reply, BaseException):
            repeat = asyncio.get_running_loop().create_task(self._tell_again(task, command, error, reply))
            self._repeats.add(repeat)
            repeat.add_done_callback(self._repeated)
            return
        if isinstance(command, Fail):
            log_failure(task, command, error, reply)
        task.let_go("its handler")
        self._changed()

    def _repeated(self, repeat: asyncio.Task[None]) -> None:
        self._repeats.discard(repeat)
        self._changed()

    async def _tell_again(
        self, task: ClaimedTask, command: Ending, error: BaseException | None, refused: BaseException
    ) -> None:
        """Retry an outcome while the lease lives, if a retry can help."""
        try:
            # After a cancellation of the event loop the command may or may not have arrived.
            if not is_transient(refused) and not isinstance(refused, asyncio.CancelledError):
                command = _instead(task, command, refused)
            reply = await self._outbox.send(command, task.hold)
            if isinstance(command, Fail):
                log_failure(task, command, error, reply)
        except Exception as last:  # any error is logged, and the lease expires
            defect = last if error is None and not isinstance(last, FlowFabricError) else error
            log.warning(
                "%s: %s was refused: %s",
                task.execution_id,
                type(command).__name__,
                last,
                exc_info=traceback_of(defect),
            )
        finally:
            task.let_go("its handler")


def _instead(task: ClaimedTask, command: Ending, refused: BaseException) -> Fail:
    """Return the failure to send instead of a result that the store refuses, such as one that is too large."""
    if isinstance(command, Complete) and isinstance(refused, FlowFabricError) and not is_loss(refused):
        return refusal(task, refused)
    raise refused


def log_failure(task: ClaimedTask, failed: Fail, error: BaseException | None, reply: Any) -> None:
    """Log a failed attempt with its traceback: as a warning if a retry follows, else as an error."""
    retried = isinstance(reply, RetryScheduled)
    if retried:
        at = f" at {moment(reply.delay_until)}" if reply.delay_until else ""
        follows = f"attempt {reply.next_attempt_index} follows{at}"
    else:
        follows = "no attempt follows"
    log.log(
        logging.WARNING if retried else logging.ERROR,
        "%s of %s failed (attempt %d, %s): %s; %s",
        task.execution_kind,
        task.execution_id,
        task.attempt_index,
        failed.category,
        failed.reason,
        follows,
        exc_info=traceback_of(error) if failed.detail else None,
    )
