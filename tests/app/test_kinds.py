"""The options of a task hold however it is submitted: workers publish them, and submissions by name use them."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from flowfabric import FlowFabric
from flowfabric.app.publishing import Publisher
from flowfabric.model.command import Command
from flowfabric.model.errors import NotFound, StoreBusy
from flowfabric.model.operations.kind import GetKind, ListKinds, PublishKind, Unchanged
from flowfabric.model.operations.read import Describe, GetPayload
from flowfabric.model.records import Execution
from flowfabric.storage.memory import MemoryStore
from support.face import Face


def declare(app: FlowFabric) -> None:
    @app.task(
        lane="slow",
        priority=7,
        tags={"team": "web"},
        retries=1,
        backoff=0,
        timeout="2m",
        capabilities=["gpu"],
        fairness_key="tenant-1",
        fairness_weight=5,
    )
    async def greet(name: str, times: int = 1) -> str:
        """Greet somebody.

        Several times, if asked to.
        """
        return f"hello, {name}" * times

    @app.task(version=2)
    async def plain() -> None: ...


async def run_of(face: Face, execution_id: str) -> Execution:
    return (await face.store.read(Describe(execution_id=execution_id))).run


async def test_a_worker_publishes_its_tasks(face: Face) -> None:
    app = face.app()
    declare(app)
    async with app.worker(worker_id="w1", capabilities=["gpu"]):
        kind = await face.store.read(GetKind(kind="greet"))
        page = await face.store.read(ListKinds())
    assert [each.kind for each in page.kinds] == ["greet", "plain@2"]
    assert (kind.lane, kind.priority, kind.tags) == ("slow", 7, (("team", "web"),))
    assert (kind.required_capabilities, kind.fairness_key, kind.fairness_weight) == (("gpu",), "tenant-1", 5)
    assert kind.description == "Greet somebody.\n\nSeveral times, if asked to."
    policy = msgspec.json.decode(kind.policy)
    assert policy["retry_policy"]["max_retries"] == 1
    assert policy["timeout_policy"] == {"attempt_timeout_ms": 120_000}
    assert msgspec.json.decode(kind.input_schema) == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "times": {"type": "integer", "default": 1}},
        "required": ["name"],
        "additionalProperties": False,
    }


async def test_a_worker_that_starts_again_writes_nothing(face: Face) -> None:
    app = face.app()
    declare(app)
    async with app.worker():
        first = await face.store.read(ListKinds())
    face.clock.advance(1_000)
    async with app.worker():
        assert await face.store.read(ListKinds()) == first


async def test_a_task_that_is_only_known_by_name_keeps_its_options(face: Face) -> None:
    app, other = face.app(), face.app()
    declare(app)
    async with app.worker(lanes=["elsewhere"]):
        run = await other.submit("greet", name="Ada")
        options = other.options(lane="fast", priority=0, tags={"team": "ops"}, retries=5)
        own, of_plain = await other.submit_many([options.call("greet", name="Bob"), other.call("plain@2")])
    found = await run_of(face, run.id)
    assert (found.lane_id, found.priority, found.tags) == ("slow", 7, (("team", "web"),))
    assert found.required_capabilities == ("gpu",)
    found = await run_of(face, own.id)
    assert (found.lane_id, found.priority, found.tags) == ("fast", 0, (("team", "ops"),))
    payload = await face.store.read(GetPayload(execution_id=own.id))
    policy = msgspec.json.decode(payload.policy_json)
    assert policy["retry_policy"] == {"max_retries": 5}
    assert policy["timeout_policy"] == {"attempt_timeout_ms": 120_000}
    assert (await run_of(face, of_plain.id)).lane_id == "default"


async def test_retries_hold_for_a_submission_by_name(face: Face) -> None:
    app, other = face.app(), face.app()
    tries: list[str] = []

    @app.task(retries=1, backoff=0, lane="flaky")
    async def flaky(name: str) -> str:
        tries.append(name)
        if len(tries) == 1:
            raise ConnectionError("not this time")
        return name

    async with app.worker():
        run = await other.submit("flaky", name="Ada")
        assert await run.result(timeout=20) == "Ada"
    assert tries == ["Ada", "Ada"]


async def test_a_function_is_submitted_as_its_own_code_says(face: Face) -> None:
    app = face.app()
    declare(app)

    @app.task
    async def own() -> None: ...

    await face.store.apply(PublishKind(kind="own", lane="elsewhere", priority=3))
    for task in (own, "own"):
        run = await app.submit(task)
        found = await run_of(face, run.id)
        assert (found.lane_id, found.priority) == ("default", 0)


async def test_the_kind_of_the_own_namespace_counts(face: Face) -> None:
    mine, others = face.app(namespace="mine"), face.app()
    declare(mine)
    async with mine.worker():
        pass
    run = await face.app(namespace="mine").submit("greet", name="Ada")
    assert (await run_of(face, run.id)).lane_id == "slow"
    run = await others.submit("greet", name="Ada")
    assert (await run_of(face, run.id)).lane_id == "default"


class Refusing(MemoryStore):
    """A store that refuses to publish, a number of times."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors = list(errors)

    async def apply_many(self, commands: Any) -> Any:
        if self.errors and isinstance(commands[0], PublishKind):
            return [self.errors.pop(0)] * len(commands)
        return await super().apply_many(commands)


@pytest.mark.parametrize("error", [NotFound("no such route"), ValueError("a defect")])
async def test_a_worker_runs_even_if_nothing_can_be_published(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    store = Refusing(error)
    app = FlowFabric(store=store)

    @app.task
    async def greet() -> str:
        return "hello"

    with caplog.at_level(logging.WARNING):
        async with app.worker():
            assert await (await app.submit(greet)).result(timeout=20) == "hello"
    if isinstance(error, NotFound):
        assert [record.message for record in caplog.records if "not published" in record.message]
    assert (await store.read(ListKinds())).kinds == ()


async def test_a_store_that_is_busy_is_asked_again() -> None:
    store = Refusing(StoreBusy("later"), StoreBusy("later"))
    command = PublishKind(kind="greet")
    async with Publisher(store, [command]):
        reply: Command[Any] | Any
        (reply,) = await store.apply_many([command])
    assert reply == Unchanged()


async def test_what_is_too_long_is_shortened_or_left_out() -> None:
    store = MemoryStore()
    app = FlowFabric(store=store)

    async def long(*, raw: bytes) -> None: ...

    long.__doc__ = "ü" * 4_000
    app.task(long)
    async with app.worker():
        kind = await store.read(GetKind(kind="long"))
    assert len(kind.description.encode()) <= 4_096
    assert kind.description.endswith("ü…")
    assert '"raw":{"type":"string","format":"binary"}' in kind.input_schema
