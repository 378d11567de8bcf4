"""Tasks of an app in processes of their own: they submit, and get what is provided."""

from __future__ import annotations

import os
from dataclasses import dataclass

from flowfabric import FlowFabric, SyncContext, provided
from support.face import Face

app = FlowFabric()


@dataclass
class Settings:
    """What can cross to another process."""

    factor: int


app.provide(Settings, lambda: Settings(3))


@app.task
async def add(a: int, b: int) -> int:
    return a + b


@app.task(executor="process")
def parent(ctx: SyncContext, a: int, *, settings: Settings = provided) -> list[object]:
    child = ctx.submit(app.options(tags={"made": "there"}).call(add, a, b=settings.factor))
    return [child.id, child.result(timeout="30s"), os.getpid()]


async def test_a_process_submits_children_and_waits_for_them(face: Face) -> None:
    with app.using(face.store):
        async with app.worker(lanes=["default"]):
            id_, total, process = await (await app.submit(parent, 4)).result(timeout="30s")
            assert total == 7
            assert process != os.getpid()
            run = app.run(str(id_), add)
            assert await run.result() == 7
            assert (await run.status()).tags == {"made": "there"}
