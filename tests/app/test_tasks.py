"""Declaring tasks: names, versions, defaults, and what is refused before anything runs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from flowfabric.app import Backoff, FlowFabric, UnknownTask, provided
from flowfabric.model.errors import FlowFabricError, InvalidInput
from flowfabric.worker.context.context import Context
from flowfabric.worker.context.sync_context import SyncContext


class Client: ...


def policy_of(app: FlowFabric, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(app._core.registry.by_kind[kind].policy or b"{}")
    return found


def test_task_stays_the_function_that_it_was() -> None:
    app = FlowFabric()

    def double(n: int) -> int:
        return 2 * n

    assert app.task(double) is double
    assert app.task(name="other")(lambda: 1)() == 1
    assert sorted(app._core.registry.by_kind) == ["double", "other"]


def test_versions_are_kinds_of_their_own() -> None:
    app = FlowFabric()

    @app.task
    def review() -> int:
        return 1

    @app.task(name="review", version=2)
    def review_again() -> int:
        return 2

    handlers = app._core.registry.handlers()
    assert handlers["review"].function is review
    assert handlers["review@2"].function is review_again


def test_second_task_of_a_kind_is_refused_and_the_first_is_named() -> None:
    app = FlowFabric()

    @app.task
    def review() -> None: ...

    with pytest.raises(InvalidInput, match=r"test_tasks\..*review is the task 'review' already"):
        app.task(name="review")(lambda: None)
    with pytest.raises(InvalidInput, match="is a task already, under another name"):
        app.task(name="again")(review)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"name": "a@2"}, "name"),
        ({"version": 0}, "version"),
        ({"timeout": "soon"}, "timeout"),
        ({"deadline": -1}, "deadline"),
        ({"backoff": "1s"}, "retries"),
        ({"retries": -1}, "retries"),
        ({"capabilities": ["a,b"]}, ""),
        ({"executor": "moon"}, "executor"),
        ({"executor": "loop"}, "executor"),
        ({"tags": {"Bad Key": "x"}}, "tags"),
        ({"retries": 1, "backoff": Backoff("never")}, "backoff.first"),
    ],
)
def test_what_cannot_be_meant_is_refused_where_it_is_said(options: dict[str, Any], field: str) -> None:
    app = FlowFabric()
    with pytest.raises(FlowFabricError) as refused:
        app.task(**options)(lambda: None) if "name" in options else app.task(name="a", **options)(
            lambda: None
        )
    assert refused.value.field == field or not field
    assert not app._core.registry.by_kind


def test_function_without_a_name_needs_one() -> None:
    with pytest.raises(InvalidInput, match="needs one"):
        FlowFabric().task(lambda: None)


def test_what_is_no_function_that_returns_is_no_task() -> None:
    async def streams() -> AsyncIterator[int]:
        yield 1

    def lists() -> Iterator[int]:
        yield 1

    for function in (streams, lists):
        with pytest.raises(TypeError, match=r"yields: a task returns its result, and streams with ctx\.emit"):
            FlowFabric().task(function)
    with pytest.raises(TypeError, match="is no function"):
        FlowFabric().task(partial(len, []))


def test_defaults_become_the_policy() -> None:
    app = FlowFabric()
    backoff = Backoff("200ms", most="5s", factor=3)
    app.task(
        name="a",
        retries=3,
        backoff=backoff,
        retry_on=["timeout"],
        timeout="2m",
        deadline=timedelta(hours=1),
        capabilities=["gpu"],
        retention="1w",
    )(lambda: None)
    app.task(name="b", retries=2, backoff="5s")(lambda: None)
    app.task(name="c")(lambda: None)
    assert policy_of(app, "a") == {
        "retry_policy": {
            "max_retries": 3,
            "backoff": {
                "type": "exponential",
                "initial_delay_ms": 200,
                "max_delay_ms": 5_000,
                "multiplier": 3,
                "jitter": True,
            },
            "retryable_categories": ["timeout", "retry"],
        },
        "timeout_policy": {"attempt_timeout_ms": 120_000, "execution_deadline_ms": 3_600_000},
        "routing_requirements": {"required_capabilities": ["gpu"]},
        "stream_policy": {"retention_ttl_ms": 604_800_000},
    }
    assert policy_of(app, "b") == {
        "retry_policy": {"max_retries": 2, "backoff": {"type": "fixed", "delay_ms": 5_000}}
    }
    assert policy_of(app, "c") == {}


def test_context_and_what_is_provided_are_no_arguments() -> None:
    app = FlowFabric()

    @app.task
    async def fetch(ctx: Context, url: str, client: Client, *, other: Client = provided) -> str:
        return url

    with pytest.raises(TypeError, match=r"nothing provides other: Client; say app\.provide"):
        app._core.registry.handlers()
    app.provide(Client, Client)
    handler = app._core.registry.handlers()["fetch"]
    assert handler.context == "ctx"
    assert handler.dependencies == {"client": Client, "other": Client}
    assert list(handler.signature.types) == ["url"]
    assert handler.returns is str
    assert handler.executor == "loop"


def test_one_context_will_do() -> None:
    app = FlowFabric()

    @app.task
    async def twice(a: Context, b: Context) -> None: ...

    with pytest.raises(TypeError, match="a and b both ask for the context"):
        app._core.registry.handlers()


def elsewhere(ctx: Context) -> None: ...


def test_context_is_that_of_the_kind_of_function() -> None:
    async def awaits(ctx: SyncContext) -> None: ...
    def waits(ctx: Context) -> None: ...

    for function, executor, problem in (
        (awaits, None, "ctx must be a Context, because the task is written with async def"),
        (waits, None, "ctx must be a SyncContext, because the task is written with def"),
        (elsewhere, "process", "ctx must be a SyncContext, because the task runs in a process of its own"),
    ):
        app = FlowFabric()
        app.task(executor=executor)(function)  # type: ignore[arg-type] # one of the three words
        with pytest.raises(TypeError, match=problem):
            app._core.registry.handlers()


def test_plain_functions_run_in_threads_and_processes_are_asked_for() -> None:
    app = FlowFabric()
    app.task(name="a")(lambda: None)
    app.task(name="b", executor="process")(policy_of)
    handlers = app._core.registry.handlers()
    assert (handlers["a"].executor, handlers["b"].executor) == ("thread", "process")


def test_a_function_that_another_process_cannot_find_is_refused() -> None:
    def local() -> None: ...

    for function in (local, lambda: None):
        with pytest.raises(InvalidInput, match="executor: another process finds a function by its name"):
            FlowFabric().task(name="a", executor="process")(function)


def test_type_is_provided_once() -> None:
    app = FlowFabric()
    app.provide(Client, Client)
    with pytest.raises(InvalidInput, match="Client is provided already"):
        app.provide(Client, Client)


async def test_function_that_is_no_task_is_told_what_to_do() -> None:
    def stray() -> None: ...

    with pytest.raises(UnknownTask, match=r"put @app\.task over it"):
        await FlowFabric().submit(stray)
