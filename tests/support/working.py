"""A store with its engine, in real time, and handlers made from plain functions: for the suites of workers."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from flowfabric.client import HttpClient
from flowfabric.codecs import Signature, encode_value
from flowfabric.engine import Engine, every_step, wait_until_ended
from flowfabric.model.ids import spread
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.read import Describe, GetResult, ListAttempts, ReadHistory
from flowfabric.model.operations.suspend_waitpoint import ListWaitpoints
from flowfabric.model.records import Attempt, Execution
from flowfabric.storage import open_store
from flowfabric.storage.base import Commands, Upkeep
from flowfabric.storage.minting import new_uuid
from flowfabric.worker import Context, Handler, Runtime, SyncContext, WorkerSettings
from flowfabric.worker.handlers import Executor
from support.over_http import served
from support.valkey import empty_server

LIMIT_MS = 30_000


def handler(function: Callable[..., Any], executor: Executor | None = None, kind: str = "") -> Handler:
    """Make a handler of a function: the parameter `ctx` takes the context."""
    context = "ctx" if "ctx" in inspect.signature(function).parameters else ""
    return Handler(
        kind=kind or function.__name__,
        function=function,
        context=context,
        signature=Signature.of(function, skip={context} if context else set()),
        executor=executor or ("loop" if inspect.iscoroutinefunction(function) else "thread"),
    )


def table(*functions: Callable[..., Any] | Handler) -> dict[str, Handler]:
    """Make the table of a worker."""
    made = [each if isinstance(each, Handler) else handler(each) for each in functions]
    return {each.kind: each for each in made}


class Place:
    """A store as workers and clients see it, and the URL that opens it."""

    def __init__(self, name: str, url: str, store: Commands, behind: Upkeep) -> None:
        self.name = name
        self.url = url
        self.store = store
        self.behind = behind

    def runtime(self, *functions: Callable[..., Any] | Handler, **settings: Any) -> Runtime:
        """A worker of these functions, not yet started."""
        options = {"lease_ttl": "10s", "grace": "5s", **settings}
        return Runtime(self.store, table(*functions), WorkerSettings(**options), url=self.url)

    async def submit(self, kind: str, value: Any = None, policy: Any = None, **fields: Any) -> str:
        """Submit one execution."""
        data, encoding = encode_value({} if value is None else value)
        execution_id = spread(new_uuid(), self.store.partitions)
        await self.store.apply(
            CreateExecution(
                execution_id=execution_id,
                execution_kind=kind,
                input_payload=data,
                payload_encoding=encoding,
                policy=json.dumps(policy or {}).encode(),
                **fields,
            )
        )
        return execution_id

    async def ended(self, execution_id: str) -> Execution:
        """Wait until it has ended."""
        run = await wait_until_ended(self.store, execution_id, LIMIT_MS)
        assert run.completed_at, f"{execution_id} has not ended: {run.public_state}"
        return run

    async def result(self, execution_id: str) -> Any:
        """Wait for the end, and return the result."""
        run = await self.ended(execution_id)
        assert run.public_state == "completed", (
            f"{run.public_state}: {run.failure_category}: {run.failure_reason}"
        )
        view = await self.store.read(GetResult(execution_id=execution_id))
        assert view.result is not None
        return json.loads(view.result.data)

    async def run(self, execution_id: str) -> Execution:
        return (await self.store.read(Describe(execution_id=execution_id))).run

    async def attempts(self, execution_id: str) -> tuple[Attempt, ...]:
        return await self.store.read(ListAttempts(execution_id=execution_id))

    async def steps(self, execution_id: str) -> list[str]:
        return [step.name async for step in every_step(self.store, execution_id)]

    async def events(self, execution_id: str) -> list[str]:
        page = await self.store.read(ReadHistory(execution_id=execution_id, limit=1000))
        return [event.event for event in page.events]

    async def state(self, execution_id: str, wanted: str) -> Execution:
        """Wait until it is in a state."""
        async with asyncio.timeout(20), self.behind.subscribe([f"execution:{execution_id}"]) as woken:
            while (run := await self.run(execution_id)).public_state != wanted:
                await woken.wait(1.0)
        return run

    async def waits(self, execution_id: str, key: str) -> None:
        """Wait until it waits on a waitpoint."""
        async with asyncio.timeout(20), self.behind.subscribe([f"execution:{execution_id}"]) as woken:
            while True:
                page = await self.store.read(ListWaitpoints(execution_id=execution_id))
                if [each.waitpoint_key for each in page.waitpoints] == [key]:
                    return
                await woken.wait(1.0)


@asynccontextmanager
async def place_on(name: str, folder: Path) -> AsyncIterator[Place]:
    """Open a fresh store with an engine beside it: `sqlite`, `valkey`, or `http` for a server in front of a file."""
    if name == "valkey":
        async with empty_server() as server, _place(name, server.url) as place:
            yield place
        return
    async with _place(name, str(folder / "work.db")) as place:
        if name == "sqlite":
            yield place
            return
        async with served(place.behind) as url:
            client = await HttpClient.open(url)
            try:
                yield Place(name, url, client, place.behind)
            finally:
                await client.close()


@asynccontextmanager
async def _place(name: str, url: str) -> AsyncIterator[Place]:
    store = await open_store(url)
    try:
        async with Engine(store):
            yield Place(name, url, store, store)
    finally:
        await store.close()


__all__ = ["Context", "Place", "SyncContext", "handler", "place_on", "table"]
