"""Running the functions of durable steps, and storing their results."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from flowfabric.codecs import Codec
from flowfabric.model.operations.step import StepExisting
from flowfabric.worker.claimed_task import ClaimedTask
from flowfabric.worker.context.facts import task_log
from flowfabric.worker.context.hooks import ContextHooks
from flowfabric.worker.context.lease_guard import stop_if_lost
from flowfabric.worker.context.stream import AttemptStream
from flowfabric.worker.context.suspension_gate import SuspensionGate
from flowfabric.worker.steps.journal import StepJournal
from flowfabric.worker.steps.policy import StepPolicy, call_function
from flowfabric.worker.steps.results import read_result, write_result


class StepRunner:
    """Runs the steps of one handler: each function once, unless the worker dies before its result is stored."""

    def __init__(
        self,
        task: ClaimedTask,
        codec: Codec,
        journal: StepJournal,
        gate: SuspensionGate,
        stream: AttemptStream,
        hooks: ContextHooks,
    ) -> None:
        self._task = task
        self._codec = codec
        self._journal = journal
        self._gate = gate
        self._stream = stream
        self._hooks = hooks

    def run(
        self,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        policy: StepPolicy | None,
    ) -> Coroutine[Any, Any, Any]:
        """Return the coroutine of a step. Its position is taken now, so that calls are ordered as they are made."""
        unique, position = self._journal.next_call(name)
        return self._hooks.wrap(self._run(unique, position, fn, args, kwargs, policy))

    async def _run(
        self,
        name: str,
        position: int,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        policy: StepPolicy | None,
    ) -> Any:
        found = await self._journal.find(name)
        if found is not None:
            return read_result(name, found.result, found.encoding, fn, self._codec)
        execution_id = self._task.execution_id
        await self._hooks.before_step(execution_id, name)
        await self._gate.before_step()
        with self._gate.step(name):
            if policy is None:
                value = await call_function(fn, args, kwargs)
            else:
                log = task_log(self._task.execution_kind, execution_id, self._task.attempt_index)
                timer = self._hooks.step_timer(execution_id)
                value = await policy.run(name, fn, args, kwargs, log, timer)
            return await self.keep(name, position, value, fn)

    async def keep(self, name: str, position: int, value: Any, fn: Callable[..., Any]) -> Any:
        """Store the value of a step; return it, or the value that was stored before."""
        result, encoding = write_result(name, value, self._codec)
        stored = await self.put(name, position, result, encoding)
        return value if stored is None else read_result(name, *stored, fn, self._codec)

    async def put(self, name: str, position: int, result: bytes, encoding: str) -> tuple[bytes, str] | None:
        """Store the result of a step; return a different one that was stored before, if there is one.

        Frames are stored first: once its result is stored, the step does not run again, and nothing emits them again.
        """
        await self._stream.flush()
        answer = await stop_if_lost(self._task.put_step(name, result, encoding, position))
        if isinstance(answer, StepExisting) and answer.result != result:
            return answer.result, answer.encoding
        return None


def untyped() -> Any:
    """Stand in for a function without a return type, where a stored value has none."""
