"""`ff kinds`, and what `ff submit` leaves to a kind and checks against it, on a file, Valkey and over HTTP."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from flowfabric import FlowFabric
from flowfabric.cli.support.task_arguments import check_input
from flowfabric.model.errors import InvalidInput
from flowfabric.model.operations.kind import GetKind, PublishKind
from flowfabric.model.operations.read import GetPayload
from flowfabric.model.operations.read_list import ListExecutions
from flowfabric.model.operations.worker import RegisterWorker
from flowfabric.model.records import Kind
from flowfabric.storage.memory import MemoryStore
from support.commands import Ff
from support.working import Place


@dataclass
class Order:
    item: str
    count: int


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

    @app.task
    async def thumbnail(image: bytes) -> bytes:
        return image[:4]

    @app.task
    async def price(order: Order, currency: str = "EUR") -> str:
        return f"{order.count} {currency}"

    @app.task
    async def measure(n: int = 0, x: float = 0, yes: bool = False, word: str | None = None) -> None:
        pass

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
        ("", "greet"),
        ("", "keep@2"),
        ("", "measure"),
        ("", "price"),
        ("", "thumbnail"),
        ("theirs", "other"),
    ]
    assert len(await ff.json("kinds", "--limit", "1")) == 1
    assert len(await ff.json("kinds", "--namespace", "mine")) == 5
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
    check_input(await kind_with(schema), data)
    check_input(None, data)


async def test_an_object_for_a_text_is_refused() -> None:
    kind = await kind_with('{"properties": {"name": {"type": "string"}}}')
    with pytest.raises(InvalidInput):
        check_input(kind, b'{"nam": 1}')


async def test_an_unpublished_kind_is_noticed(place: Place, ff: Ff) -> None:
    first = await ff("submit", "greet", "name=Ada")
    assert first.code == 0
    told = "note: no worker has published greet yet, so it has no options of its own (lane default, no retries)\n"
    assert first.err == told
    await publish(place)
    assert (await ff("submit", "greet", "name=Ada")).err == ""
    typo = await ff("submit", "gret", "name=Ada", "--policy", "{}")
    assert (typo.code, len(typo.out.splitlines())) == (0, 1)
    assert "published gret yet, so it has no options of its own (lane default); " in typo.err
    assert typo.err.endswith("the nearest published name is greet\n")
    many = await ff("submit", "gret", "--each", "-", stdin=b"1\n2\n")
    assert (many.code, many.err.count("note: ")) == (0, 1)
    assert len(await runs(place)) == 5


async def test_an_unknown_lane_is_noticed(place: Place, ff: Ff) -> None:
    await publish(place)
    typo = await ff("submit", "greet", "name=Ada", "--lane", "slwo")
    assert typo.code == 0
    assert typo.err == (
        "note: no live worker serves lane slwo, and there is no other work on it; the nearest known lane is slow\n"
    )
    assert (await ff("submit", "greet", "name=Ada", "--lane", "default")).err == ""
    assert (await ff("submit", "greet", "name=Ada", "--lane", "slwo")).err == ""
    await place.store.apply(RegisterWorker(worker_id="w", worker_instance_id="w-1", lanes=("busy",)))
    assert (await ff("submit", "greet", "name=Ada", "--lane", "busy")).err == ""
    assert (
        "the nearest known lane is busy\n" in (await ff("submit", "greet", "name=Ada", "--lane", "bussy")).err
    )


async def test_explain_names_the_lane_that_a_kind_is_published_for(place: Place, ff: Ff) -> None:
    early = (await ff("submit", "greet", "name=Ada")).out.strip()
    assert "published" not in (await ff("explain", early)).out
    await publish(place)
    told = (await ff("explain", early)).out
    assert "greet is published for lane slow, and this run waits on lane default" in told
    later = (await ff("submit", "greet", "name=Ada")).out.strip()
    assert "published" not in (await ff("explain", later)).out


@pytest.mark.parametrize("arguments", [("image=abcdef",), (), ("--input", '"abcdef"'), ("--input", "{}")])
async def test_a_task_of_bytes_takes_no_json(place: Place, ff: Ff, arguments: tuple[str, ...]) -> None:
    await publish(place)
    ended = await ff("submit", "thumbnail", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "image: thumbnail takes bytes, not JSON: give them with --raw --input @FILE" in ended.err
    assert await runs(place) == []
    assert (await ff("submit", "thumbnail", *arguments, "--no-check")).code == 0


async def test_a_task_of_bytes_takes_raw_input(place: Place, ff: Ff) -> None:
    await publish(place)
    assert "image     bytes (--raw)  required" in (await ff("kinds", "thumbnail")).out
    lines = await ff("submit", "thumbnail", "--each", "-", stdin=b'"abc"\n')
    assert (lines.code, "line 1: image: thumbnail takes bytes" in lines.err) == (2, True)
    run = (await ff("submit", "thumbnail", "--raw", "--input", "-", stdin=b"\xff\x00")).out.strip()
    assert (await place.store.read(GetPayload(execution_id=run))).input == b"\xff\x00"


@pytest.mark.parametrize(
    ("argument", "sent"),
    [
        ("word=5", {"word": "5"}),
        ("word=true", {"word": "true"}),
        ("word=[1]", {"word": "[1]"}),
        ("word=null", {"word": None}),
        ('word="5"', {"word": "5"}),
        ("n=5", {"n": 5}),
        ("x=5", {"x": 5}),
        ("x=1e3", {"x": 1000.0}),
        ("yes=true", {"yes": True}),
    ],
)
async def test_values_are_of_the_published_type(
    place: Place, ff: Ff, argument: str, sent: dict[str, Any]
) -> None:
    await publish(place)
    run = (await ff("submit", "measure", argument)).out.strip()
    assert json.loads((await place.store.read(GetPayload(execution_id=run))).input) == sent


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        (("n=abc",), 'n: measure takes integer here, not "abc": write n=3'),
        (("n=1.5",), "n: measure takes integer here, not 1.5: write n=3"),
        (("n=true",), "n: measure takes integer here, not true"),
        (("x=much",), 'x: measure takes number here, not "much": write x=1.5'),
        (("x=NaN",), 'x: measure takes number here, not "NaN"'),
        (("yes=yes",), 'yes: measure takes boolean here, not "yes": write yes=true or yes=false'),
        (("--input", '{"n": "abc"}'), 'n: measure takes integer here, not "abc"'),
        (("--input", '{"word": 5}'), "word: measure takes string or null here, not 5"),
    ],
)
async def test_values_of_other_types_are_refused(
    place: Place, ff: Ff, argument: tuple[str, ...], told: str
) -> None:
    await publish(place)
    ended = await ff("submit", "measure", *argument)
    assert (ended.code, ended.out, told in ended.err) == (2, "", True), ended
    assert await runs(place) == []
    assert (await ff("submit", "measure", *argument, "--no-check")).code == 0


@pytest.mark.parametrize(
    "argument", [("adress=x",), ("item=lamp", "count=2"), ("--input", '{"adress": "x"}')]
)
async def test_unknown_names_are_no_value_of_the_first_argument(
    place: Place, ff: Ff, argument: tuple[str, ...]
) -> None:
    await publish(place)
    ended = await ff("submit", "price", *argument)
    assert (ended.code, "there is no such argument: price takes order, currency" in ended.err) == (2, True)
    assert (await ff("submit", "price", "--input", '{"item": "lamp", "count": 2}')).code == 0
    assert (await ff("submit", "keep@2", "any=1")).code == 0
