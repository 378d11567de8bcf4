"""The runtime of a worker: claims tasks, runs their handlers, and reports their outcomes to the store."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from flowfabric.codecs import Duration, millis, seconds
from flowfabric.engine import Engine
from flowfabric.model.errors import FlowFabricError, StoreClosed, invalid
from flowfabric.model.operations.lease import Release
from flowfabric.storage import open_store
from flowfabric.storage.base import Commands, Upkeep, is_direct
from flowfabric.worker.claimed_task import ClaimedTask
from flowfabric.worker.context.children import ChildSubmitter
from flowfabric.worker.execution.failures import ending
from flowfabric.worker.execution.handler_caller import HandlerCaller
from flowfabric.worker.execution.outcomes import OutcomeReporter
from flowfabric.worker.execution.processes import ProcessPool
from flowfabric.worker.execution.running_task import RunningTask
from flowfabric.worker.execution.stopping import REMINDER_SECONDS, log_grace, names_of, stop_signals
from flowfabric.worker.execution.task_runner import TaskRunner
from flowfabric.worker.execution.watchdog import LoopWatchdog
from flowfabric.worker.faults import (
    Stopping,
)
from flowfabric.worker.handlers import Handler, Resolver, WorkerSettings
from flowfabric.worker.layers import Layer
from flowfabric.worker.outbox import RetryPause, is_transient
from flowfabric.worker.worker import Worker

log = logging.getLogger("flowfabric.worker")

LAST_SECONDS: Final = 1.0
"""How long an interrupted handler may clean up before its task is given back regardless."""


class Runtime:
    """Runs handlers: `async with Runtime(url, handlers, settings): …`, or `await Runtime(…).run()` until a signal.

    `store` is the URL of a store, or an open store; then `url` lets the worker renew leases through a second
    connection. With `engine`, this process also runs the engine of a direct store, which fires timers and retries.
    """

    def __init__(
        self,
        store: Commands | str,
        handlers: Mapping[str, Handler],
        settings: WorkerSettings | None = None,
        *,
        resolver: Resolver | None = None,
        layers: Sequence[Layer] = (),
        url: str = "",
        engine: bool = False,
        submitter: ChildSubmitter | None = None,
    ) -> None:
        if not handlers:
            raise invalid("handlers", "a worker needs at least one task to run")
        given = (settings or WorkerSettings()).checked()
        lanes = given.lanes or tuple(dict.fromkeys(handler.lane for handler in handlers.values()))
        self.settings = replace(given, lanes=lanes)
        """The settings, with the lanes of the handlers if none were given."""
        self.handlers = dict(handlers)
        """The handlers by kind."""
        self._kinds = tuple(handlers)
        self._place = store
        self._url = url
        self._resolver = resolver
        self._layers = tuple(layers)
        self._with_engine = engine
        self._submitter = submitter
        self._grace = seconds(self.settings.grace, "grace")
        self._claim_wait_ms = millis(self.settings.claim_wait, "claim_wait")
        self._stack = contextlib.AsyncExitStack()
        self._running: dict[asyncio.Task[None], RunningTask] = {}
        self._active = 0
        """How many handlers run; those whose outcome is being sent are not counted."""
        self._ahead: deque[ClaimedTask] = deque()
        self._room = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurry = False
        """Whether the grace period was ended early."""
        self._by_signal = False
        self._progress = asyncio.Event()
        """Set whenever a handler or a report that a stopping worker waits for has ended."""
        self._claiming: asyncio.Task[None] | None = None
        self._outcomes: OutcomeReporter
        self._asking = False
        """Whether a claim is in flight; its tasks are given back when they arrive."""
        self._processes = ProcessPool()
        self._runner: TaskRunner
        self.worker: Worker
        """The low-level worker, once the runtime has started."""

    # Start and stop.

    async def __aenter__(self) -> Self:
        try:
            await self._open()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def _open(self) -> None:
        store: Commands
        url = self._url
        if isinstance(self._place, str):
            url = self._place
            store = await open_store(url)
            self._stack.push_async_callback(store.close)
        else:
            store = self._place
        if self._with_engine:
            await self._stack.enter_async_context(Engine(_direct(store)))
        if self._resolver is not None:
            self._stack.push_async_callback(self._resolver.close)
            await self._resolver.open()
        settings = self.settings
        self.worker = await Worker.open(
            store,
            settings,
            url=url,
            layers=self._layers,
            watch=LoopWatchdog(self._name_of, self._in_threads),
            permits=2 * (settings.concurrency + settings.prefetch) + 1,
        )
        await self._stack.enter_async_context(self.worker)
        self._outcomes = OutcomeReporter(self.worker.outbox, self._changed)
        self._stack.push_async_callback(self._processes.close)
        caller = HandlerCaller(self.handlers, self._layers, self._resolver, self._submitter, self._processes)
        self._runner = TaskRunner(caller, self.worker.lease_ttl_ms, self._stopping)
        self._stack.callback(self._runner.close)
        self._claiming = asyncio.create_task(self._claim(), name="flowfabric-claiming")
        log.info(
            "%s takes %s from %s, %d at a time",
            self.worker.instance_id,
            ", ".join(self._kinds),
            ", ".join(settings.lanes),
            settings.concurrency,
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.stop()
        finally:
            await self._stack.aclose()

    async def run(self) -> None:
        """Run until `request_stop` is called, or in the main thread until SIGTERM or SIGINT.

        Running handlers may then continue for the grace period; a second signal ends it. Tasks whose handlers have not
        ended are given back.
        """
        with stop_signals(self.request_stop, self.end_grace) as self._by_signal:
            async with self:
                await self._stopping.wait()

    def request_stop(self) -> None:
        """Ask `run` to end: claiming stops at once, and the grace period of running handlers begins."""
        self._stopping.set()

    def end_grace(self) -> None:
        """End the grace period now, and give back the tasks that still run."""
        self._hurry = True
        self._progress.set()

    async def stop(self, grace: Duration | None = None) -> None:
        """Stop claiming, let handlers run for the grace period, then give back the tasks they have not finished.

        If this is cancelled, it stops waiting, and still gives the tasks back.
        """
        limit = self._grace if grace is None else seconds(grace, "grace")
        self._stopping.set()
        if self._claiming is None:
            return
        if not self._claiming.done() and not self._running:
            log.info("%s stops; nothing runs", self.worker.instance_id)
        try:
            await self._end_claiming(self._claiming)
            await self._release_ahead()
            await self._wait_out(limit)
        finally:
            self._claiming.cancel()
            await self._give_back()

    async def _end_claiming(self, claiming: asyncio.Task[None]) -> None:
        if self._asking:
            await asyncio.wait({claiming}, timeout=LAST_SECONDS)
        claiming.cancel()
        await asyncio.gather(claiming, return_exceptions=True)

    async def _release_ahead(self) -> None:
        ahead = [*self._ahead]
        self._ahead.clear()
        await self._release(ahead)

    async def _wait_out(self, grace: float) -> None:
        """Wait for running handlers until the grace period is over, and log that now and then."""
        clock = asyncio.get_running_loop().time
        end = clock() + grace
        while self._busy and not self._hurry and (left := end - clock()) > 0:
            if self._running:
                log_grace(self.worker.instance_id, self._running.values(), left, by_signal=self._by_signal)
            await self._wait(min(left, REMINDER_SECONDS), lambda: self._busy and not self._hurry)

    async def _give_back(self) -> None:
        """Interrupt the handlers that still run, and release their tasks; none of them counts as failed."""
        await self._release_ahead()
        if self._running:
            log.warning("%s gives back %s", self.worker.instance_id, names_of(self._running.values()))
        for running in self._running.values():
            running.stop(Stopping("the worker stops"))
        await self._wait(LAST_SECONDS, lambda: self._busy)
        left = list(self._running.values())
        await self._release([running.task for running in left if not running.task.consumed])
        for running in left:
            log.warning("handler %r does not stop; it is left behind", running.handler.kind)
            if running.job is not None:
                running.job.cancel()

    @property
    def _busy(self) -> bool:
        """Whether handlers run, or outcomes are not yet acknowledged by the store."""
        return bool(self._running) or self._outcomes.pending

    async def _wait(self, timeout: float, while_: Callable[[], bool]) -> None:  # noqa: ASYNC109 - the wait itself is the purpose
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while while_():
                    self._progress.clear()
                    await self._progress.wait()

    async def _release(self, tasks: Sequence[ClaimedTask]) -> None:
        releases = [
            task.end(
                Release(execution_id=task.execution_id, fence=task.task.fence, reason="the worker stops")
            )
            for task in tasks
        ]
        for outcome in await asyncio.gather(*releases, return_exceptions=True):
            if isinstance(outcome, BaseException):
                log.warning("a task could not be given back, its lease will expire: %s", outcome)

    # Claiming.

    async def _claim(self) -> None:
        backoff = RetryPause()
        most = self.settings.concurrency + self.settings.prefetch
        while not self._stopping.is_set():
            room = most - self._active - len(self._ahead)
            if room <= 0 or not self.worker.free:
                self._room.clear()
                await self._room.wait()
                continue
            try:
                self._ahead.extend(await self._take(room))
            except StoreClosed:
                return
            except FlowFabricError as error:
                if not is_transient(error):
                    log.error("claiming goes on, but the store refuses it: %s", error)  # noqa: TRY400 - no defect
                else:
                    log.warning("claiming pauses: %s", error)
                await backoff.pause()
                continue
            backoff.reset()
            self._start()

    async def _take(self, room: int) -> list[ClaimedTask]:
        """Claim tasks; wait for some if there are none."""
        if self.worker.looks_first:
            self._asking = True
            try:
                tasks = await self.worker.claim_now(room, self._kinds)
            finally:
                self._asking = False
            if tasks or self._stopping.is_set():
                return tasks
        return await self.worker.claim_within(self._claim_wait_ms, room, self._kinds)

    def _start(self) -> None:
        """Start handlers while there are free slots and claimed tasks."""
        while self._ahead and self._active < self.settings.concurrency and not self._stopping.is_set():
            task = self._ahead.popleft()
            running = RunningTask(task, self.handlers[task.execution_kind])
            self._active += 1
            job = asyncio.get_running_loop().create_task(self._work(running), name=running.handler.kind)
            running.job = job
            self._running[job] = running
            if task.hold.loss is not None:
                running.lose(task.hold.loss)
            task.hold.on_loss = running.lose

    def _changed(self) -> None:
        """Wake the claim loop and a stopping worker after a handler or a report has ended."""
        self._room.set()
        self._progress.set()

    # One task.

    async def _work(self, running: RunningTask) -> None:
        """Run a handler. Its slot is free once it has returned; its outcome is sent in the background."""
        command = None
        try:
            command = await self._runner.run(running)
        except (asyncio.CancelledError, KeyboardInterrupt) as error:
            running.interrupt(Stopping("the worker was interrupted"))
            command = ending(running.task, running.error or error)
            if isinstance(error, KeyboardInterrupt):
                raise
        finally:
            del self._running[running.job]  # type: ignore[arg-type]
            self._active -= 1
            if command is None:
                running.task.let_go("its handler")
            else:
                self._outcomes.tell(running.task, command, running.failure)
            self._changed()
            if self._ahead:
                self._start()

    # For the watchdog.

    def _name_of(self, job: asyncio.Task[object] | None) -> str:
        running = self._running.get(job)  # type: ignore[arg-type] # any other task is not in it
        return running.handler.kind if running is not None else ""

    def _in_threads(self) -> list[str]:
        kinds = (running.handler for running in list(self._running.values()))
        return sorted({handler.kind for handler in kinds if handler.executor == "thread"})


def _direct(store: Commands) -> Upkeep:
    if not is_direct(store):
        raise invalid("engine", "runs beside a direct store only; a server has its own")
    return store
