"""Submitting: what travels, what is decided by options, and what happens once however often it is sent."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from flowfabric.app import SubmitRefused
from flowfabric.codecs import JSON
from flowfabric.model.errors import InvalidInput
from flowfabric.model.operations.read import Describe, GetPayload
from flowfabric.model.operations.read_list import ListExecutions
from flowfabric.model.records import Execution
from support.face import Face


@dataclasses.dataclass
class Order:
    number: int
    items: list[str]


async def record(face: Face, execution_id: str) -> Execution:
    return (await face.store.read(Describe(execution_id=execution_id))).run


async def test_arguments_travel_and_typed_results_return(face: Face) -> None:
    app = face.app()

    @app.task
    async def ship(order: Order, *, fast: bool = False) -> Order:
        return Order(order.number + 1, [*order.items, "fast" if fast else "slow"])

    run = await app.submit(ship, Order(1, ["a"]), fast=True)
    assert not run.duplicate
    payload = await face.store.read(GetPayload(execution_id=run.id))
    assert payload.input == b'{"order":{"number":1,"items":["a"]},"fast":true}'
    await face.work(app)
    assert await run.result() == Order(2, ["a", "fast"])


async def test_bytes_travel_untouched(face: Face) -> None:
    app = face.app()

    @app.task
    def reverse(data: bytes) -> bytes:
        return data[::-1]

    run = await app.submit(reverse, b"\x00\xff{")
    await face.work(app)
    assert await run.result() == b"{\xff\x00"


async def test_task_of_another_program_is_named_by_its_kind(face: Face) -> None:
    here, there = face.app(), face.app()

    @there.task(name="greet", version=2)
    def greet(name: str, mark: str = "!") -> str:
        return f"hello, {name}{mark}"

    named = await here.submit("greet@2", name="ada", mark="?")
    await face.work(there)
    whole = await here.submit("greet@2", "bob")
    await face.work(there)
    assert (await named.result(), await whole.result()) == ("hello, ada?", "hello, bob!")
    with pytest.raises(InvalidInput, match="by name, or one value by place"):
        await here.submit("greet@2", "ada", mark="?")


async def test_arguments_of_wrong_types_are_refused_before_anything_is_stored(face: Face) -> None:
    app = face.app()

    @app.task
    def job(n: int, names: list[str]) -> None: ...

    wrong: Any = ["a", 3]
    for refused in (app.submit(job, 1, wrong), app.submit("job", n=1, names=wrong)):
        with pytest.raises(InvalidInput, match=r"^names\[1\]: Expected `str`, got `int`"):
            await refused
    with pytest.raises(InvalidInput, match=r"^n: "):
        app.call("job", n="1", names=[])
    assert not (await face.store.read(ListExecutions())).runs


async def test_options_of_a_submission_go_before_those_of_the_task(face: Face) -> None:
    app = face.app(namespace="team")

    @app.task(
        lane="slow", priority=5, retries=3, timeout="1m", tags={"team": "a", "kind": "x"}, fairness_key="k"
    )
    def job() -> None: ...

    plain = await record(face, (await app.submit(job)).id)
    assert (plain.lane_id, plain.priority, plain.namespace) == ("slow", 5, "team")
    assert (plain.policy.max_retries, plain.policy.attempt_timeout_ms) == (3, 60_000)
    assert (dict(plain.tags), plain.fairness_key) == ({"team": "a", "kind": "x"}, "k")
    other = app.options(
        lane="fast", priority=9, retries=1, tags={"kind": "y"}, fairness_key="z", deadline="1h", delay="5s"
    )
    told = await record(face, (await other.submit(job)).id)
    assert (told.lane_id, told.priority, told.fairness_key) == ("fast", 9, "z")
    assert dict(told.tags) == {"team": "a", "kind": "y"}
    assert (told.policy.max_retries, told.policy.attempt_timeout_ms) == (1, 60_000)
    assert told.execution_deadline_at - told.created_at == 3_600_000


async def test_delay_counts_from_the_submission(face: Face) -> None:
    app = face.app()
    app.task(name="job")(lambda: None)
    call = app.options(delay="5s").call("job")
    face.clock.advance(1_000)
    run = await record(face, (await app.submit_many([call]))[0].id)
    assert run.delay_until == face.clock.now + 5_000
    assert run.public_state == "delayed"


async def test_a_prepared_call_is_one_run_however_often_it_is_sent(face: Face) -> None:
    app = face.app()

    @app.task
    def job(n: int) -> int:
        return n

    call = app.options(priority=7).call(job, 3)
    first, second = await app.submit(call), await app.submit(call)
    assert (first.id, first.duplicate, second.duplicate) == (second.id, False, True)
    assert (await record(face, first.id)).priority == 7
    await face.work(app)
    assert await second.result() == 3
    for wrong in (app.submit(call, 4), app.options(priority=1).submit(call)):  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="has its arguments and options"):
            await wrong


async def test_key_finds_the_first_submission(face: Face) -> None:
    app = face.app()

    @app.task
    def job(n: int) -> int:
        return n

    keyed = app.options(key="order-17")
    first, second = await keyed.submit(job, 1), await keyed.submit(job, 2)
    assert (second, second.duplicate) == (first, True)
    await face.work(app)
    assert await second.result() == 1


async def test_call_that_is_sent_twice_runs_once(face: Face) -> None:
    app = face.app()

    @app.task
    def job(n: int) -> int:
        return n

    calls = [app.call(job, n) for n in range(3)]
    first = await app.submit_many(calls)
    second = await app.submit_many([*calls, app.call(job, 3)])
    assert second[:3] == first
    assert [run.duplicate for run in second] == [True, True, True, False]


async def test_more_calls_than_one_batch_takes_come_back_in_order(face: Face) -> None:
    app = face.app()

    @app.task
    def job(n: int) -> int:
        return n

    runs = await app.submit_many(app.call(job, n) for n in range(1_001))
    payload = await face.store.read(GetPayload(execution_id=runs[1_000].id))
    assert payload.input == b'{"n":1000}'
    assert len(set(runs)) == 1_001


async def test_refused_calls_are_named_and_the_others_exist(face: Face) -> None:
    app = face.app()

    @app.task
    def job(text: str) -> str:
        return text

    calls = [app.call(job, "a"), app.call(job, "x" * 1_100_000), app.call(job, "b")]
    with pytest.raises(SubmitRefused, match="1 of the calls were refused; the first, call 1: ") as refused:
        await app.submit_many(calls)
    assert list(refused.value.refusals) == [1]
    again = await app.submit_many([calls[0], calls[2]])
    assert [run.duplicate for run in again] == [True, True]


class Upper:
    """JSON under another name, to be told apart."""

    name = "upper"

    def encode(self, value: Any) -> bytes:
        return JSON.encode(value)

    def decode(self, data: bytes, type_: Any) -> Any:
        return JSON.decode(data, type_)


async def test_codec_of_ones_own_is_used_for_arguments_and_results(face: Face) -> None:
    app = face.app(codec=Upper())

    @app.task
    def double(n: int) -> int:
        return 2 * n

    run = await app.submit(double, 4)
    assert (await record(face, run.id)).payload_encoding == "upper"
    await face.work(app)
    assert await run.result() == 8
    with pytest.raises(InvalidInput, match="written as `upper`"):
        await face.app().run(run.id).result()
