"""A store as programs see it, and a worker written by hand that runs the tasks of an app one by one."""

from __future__ import annotations

import inspect
import traceback
from typing import Any

from flowfabric.app import FlowFabric
from flowfabric.codecs import encode_value
from flowfabric.model.conditions import list_condition
from flowfabric.model.operations.claim import Claim, Task
from flowfabric.model.operations.finish import Complete, Fail
from flowfabric.model.operations.stream import AppendFrames, FrameInput
from flowfabric.model.operations.suspend import Binding, Suspend, Suspended
from flowfabric.storage.base import Commands, Upkeep
from support.clock import ManualClock
from support.driver import new_uuid


class Face:
    """Both sides of a store."""

    def __init__(self, store: Commands, engine: Upkeep, clock: ManualClock) -> None:
        self.store = store
        self.engine = engine
        self.clock = clock

    def app(self, **options: Any) -> FlowFabric:
        """A new program on this store."""
        return FlowFabric(store=self.store, **options)

    async def claim(self, lane: str = "default") -> Task:
        """Take the next task of a lane."""
        claim = Claim(worker_id="hand", worker_instance_id="hand-1", lanes=(lane,), mint=new_uuid())
        (task,) = (await self.store.apply(claim)).tasks
        return task

    async def work(self, app: FlowFabric, lane: str = "default") -> Task:
        """Run the next task of a lane as a worker would."""
        task = await self.claim(lane)
        handler = app._core.registry.handlers()[task.execution_kind]
        try:
            placed, named = handler.signature.order(
                handler.signature.unbind(task.input, task.payload_encoding)
            )
            value = handler.function(*placed, **named)
            value = await value if inspect.isawaitable(value) else value
        except Exception as error:  # noqa: BLE001 - whatever a handler raises
            await self.fail(task, str(error), detail=traceback.format_exc())
            return task
        result, encoding = encode_value(value, handler.codec)
        await self.store.apply(
            Complete(
                execution_id=task.execution_id, fence=task.fence, result=result, result_encoding=encoding
            )
        )
        return task

    async def fail(self, task: Task, reason: str, **fields: Any) -> None:
        await self.store.apply(
            Fail(execution_id=task.execution_id, fence=task.fence, reason=reason, **fields)
        )

    async def emit(self, task: Task, *texts: str) -> None:
        frames = tuple(FrameInput(payload=text.encode(), frame_type="token") for text in texts)
        await self.store.apply(AppendFrames(execution_id=task.execution_id, fence=task.fence, frames=frames))

    async def suspend(self, task: Task, *names: str, key: str = "answer") -> Suspended:
        """Let it wait for any of some signals."""
        suspended = await self.store.apply(
            Suspend(
                execution_id=task.execution_id,
                fence=task.fence,
                suspension_id=new_uuid(),
                waitpoints=(Binding(new_uuid(), key),),
                condition=list_condition(names, "any", waitpoint_key=key),
            )
        )
        assert isinstance(suspended, Suspended)
        return suspended
