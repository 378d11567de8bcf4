"""`ff kinds`, and what `ff submit` leaves to a kind and checks against it, on a file, Valkey and over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric import FlowFabric
from flowfabric.cli.kinds import check_arguments
from flowfabric.model.contracts.kinds import GetKind, PublishKind
from flowfabric.model.contracts.reads import ListExecutions
from flowfabric.model.errors import InvalidInput
from flowfabric.model.records import Kind
from flowfabric.storage.memory import MemoryStore
from support.commands import Ff
from support.working import Place


def shop(place: Place) -> FlowFabric:
    app = FlowFabric(store=place.store)
    tries: list[str] = []

    @app.task(lane="slow", retries=1, backoff=0, tags={"team": "web"})
    async def greet(name: str, times: int = 1) -> str:
        """Greet somebody.

        At the second try.
        """
        tries.append(name)
        if len(tries) == 1:
            raise ConnectionError("not this time")
        return f"hello, {name}" * times

    @app.task(version=2)
    async def keep(doc: dict[str, Any]) -> None:
        pass

    return app


async def publish(place: Place) -> None:
    async with shop(place).worker(lanes=["nothing"], worker_id="shop-1", engine=False):
        pass


async def runs(place: Place) -> list[tuple[str, str]]:
    found = (await place.store.read(ListExecutions())).runs
    return [(run.execution_kind, run.lane_id) for run in found]


async def test_the_options_of_a_task_hold_for_ff_submit(place: Place, ff: Ff) -> None:
    async with shop(place).worker(engine=False):
        ended = await ff("submit", "greet", "name=Ada", "--wait", "--timeout", "30s")
    assert (ended.code, ended.out) == (0, '"hello, Ada"\n')
    (run,) = (await place.store.read(ListExecutions())).runs
    assert (run.lane_id, run.tags, run.attempt.index) == ("slow", (("team", "web"),), 1)


async def test_what_is_said_goes_before_the_kind(place: Place, ff: Ff) -> None:
    await publish(place)
    assert (await ff("submit", "greet", "name=Ada", "--lane", "fast", "--tag", "team=ops")).code == 0
    (run,) = (await place.store.read(ListExecutions())).runs
    assert (run.lane_id, run.tags) == ("fast", (("team", "ops"),))
    assert (await ff("submit", "unknown", "a=1")).code == 0
    assert ("unknown", "default") in await runs(place)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nam=Ada",), "nam: there is no such argument: greet takes name, times; did you mean name?"),
        (("name=Ada", "x=1"), "x: there is no such argument: greet takes name, times"),
        ((), "name: greet needs it, and it is missing"),
        (("--input", '{"times": 2}'), "name: greet needs it, and it is missing"),
        (("--input", '{"nam": 2}'), "nam: there is no such argument"),
    ],
)
async def test_arguments_are_checked_before_they_are_sent(
    place: Place, ff: Ff, arguments: tuple[str, ...], told: str
) -> None:
    await publish(place)
    ended = await ff("submit", "greet", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert told in ended.err
    assert "--no-check" in ended.err
    assert await runs(place) == []
    assert (await ff("submit", "greet", *arguments, "--no-check")).code == 0
    assert await runs(place) == [("greet", "slow")]


async def test_every_line_is_checked(place: Place, ff: Ff) -> None:
    await publish(place)
    ended = await ff("submit", "greet", "--each", "-", stdin=b'{"name": "a"}\n{"nam": "b"}\n')
    assert ended.code == 2
    assert "line 2: nam: there is no such argument" in ended.err
    assert await runs(place) == []
    assert (await ff("submit", "greet", "--each", "-", stdin=b'{"name": "a"}\n"whole"\n')).code == 0
    assert await runs(place) == [("greet", "slow")] * 2


async def test_kinds_are_listed_and_shown(place: Place, ff: Ff) -> None:
    assert await ff.json("kinds") == []
    await publish(place)
    await place.store.apply(PublishKind(kind="other", namespace="theirs"))
    listed = await ff.json("kinds")
    assert [(kind["namespace"], kind["kind"]) for kind in listed] == [
        ("", "greet"), ("", "keep@2"), ("theirs", "other"),
    ]  # fmt: skip
    assert len(await ff.json("kinds", "--limit", "1")) == 1
    assert len(await ff.json("kinds", "--namespace", "mine")) == 2
    page = (await ff("kinds")).out.splitlines()
    assert page[0].split() == ["kind", "namespace", "lane", "arguments", "published", "by", "description"]
    assert page[1].split()[:5] == ["greet", "all", "slow", "name,", "times"]
    assert page[1].endswith("Greet somebody.")
    kind = await ff.json("kinds", "greet")
    assert kind == listed[0]
    assert kind["input_schema"]["required"] == ["name"]
    shown = (await ff("kinds", "greet")).out
    for text in ("slow", "team=web", "max_retries", "required", "integer", "At the second try."):
        assert text in shown
    missing = await ff("kinds", "nothing")
    assert missing.code == 3
    assert "ff kinds" in missing.err


async def kind_with(schema: str) -> Kind:
    store = MemoryStore()
    await store.apply(PublishKind(kind="k", input_schema=schema))
    return await store.read(GetKind(kind="k"))


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ("{}", b'{"a": 1}'),
        ('{"properties": 1, "required": 1}', b'{"a": 1}'),
        ('{"properties": {"doc": {"type": "object"}}, "required": ["doc"]}', b'{"a": 1}'),
        ('{"properties": {"doc": {}}, "required": ["doc"]}', b'{"a": 1}'),
        ('{"properties": {"doc": {"anyOf": [{"type": "null"}, {"$ref": "x"}]}}}', b'{"a": 1}'),
        ('{"properties": {"name": {"type": "string"}}, "required": ["name"]}', b'"Ada"'),
        ('{"properties": {"name": {"type": "string"}}, "additionalProperties": true}', b'{"a": 1}'),
    ],
)
async def test_what_may_fit_is_not_refused(schema: str, data: bytes) -> None:
    check_arguments(await kind_with(schema), data)
    check_arguments(None, data)


async def test_an_object_for_a_text_is_refused() -> None:
    kind = await kind_with('{"properties": {"name": {"type": "string"}}}')
    with pytest.raises(InvalidInput):
        check_arguments(kind, b'{"nam": 1}')
