"""Which operations cross HTTP, exactly; and what the others say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from flowfabric.client.requests import NOT_OFFERED, answer_type
from flowfabric.model.command import Command
from flowfabric.model.operations.catalog import decidable
from flowfabric.server.http.routing import handler_of
from flowfabric.server.routes import load_routes
from flowfabric.wire import routes, routes_by_command, routes_by_question
from support.driver import Driver
from support.expect import refused
from support.over_http import BEHIND, OverHttp

STAY_INSIDE = {
    "MarkLeaseExpired",
    "PromoteDelayed",
    "ExpireSuspension",
    "ExpireExecution",
    "ExpireWaitpoints",
    "Purge",
    "LoseDeadLease",
    "SeedSecret",
    "RotateSecret",
    "Block",
    "Unblock",
    "OpenLane",
    "CreateToken",
    "DeleteToken",
    "ListTokens",
    "SignLink",
    "ReadCursorKeys",
    "ListKids",
    "ReadDue",
    "FindClaimable",
}
"""The engine's own, and administration of secrets. Nothing else may go around HTTP in the suites."""
BUILT = {"Claim": {"mint"}, "Suspend": {"condition", "waitpoints"}}
"""Required fields that the server makes from others."""


def every_command() -> set[type[Command[Any]]]:
    return set(decidable())


def test_every_operation_is_in_one_table() -> None:
    tables: list[set[Any]] = [set(routes_by_command()), set(routes_by_question()), set(NOT_OFFERED)]
    assert set[Any]().union(*tables) == every_command()
    assert sum(len(table) for table in tables) == len(every_command())


def test_what_goes_around_http_is_listed_here() -> None:
    assert {kind.__name__ for kind in BEHIND} == {kind.__name__ for kind in NOT_OFFERED} == STAY_INSIDE


def test_every_route_has_one_declaration_and_a_handler() -> None:
    load_routes()
    names = [route.name for route in routes()]
    assert len(names) == len(set(names))
    for route in routes():
        handler_of(route)


def test_every_field_of_a_command_crosses_in_both_directions() -> None:
    for kind, route in routes_by_command().items():
        form = route.body or route.query
        sent = {route.names.get(name, name) for name in form.__struct_fields__}
        sent |= {route.field_in_path(parameter, kind) for parameter in route.parameters}
        required = {field.name for field in msgspec.structs.fields(kind) if field.required}
        assert required - sent <= BUILT.get(kind.__name__, set()), kind


def test_every_question_says_what_its_answer_is() -> None:
    for kind in routes_by_question():
        assert answer_type(kind) is not None


@pytest.mark.parametrize("kind", sorted(NOT_OFFERED, key=str))
async def test_what_stays_inside_says_so(side: OverHttp, kind: type[Command[Any]]) -> None:
    given: dict[str, Any] = {
        "execution_id": "{fp:1}:00000000-0000-4000-8000-000000000001",
        "worker_instance_id": "w",
        "kid": "k",
        "new_kid": "k",
        "secret_hex": "00",
        "new_secret_hex": "00",
        "grace_ms": 1,
        "blocking_reason": "x",
        "token_id": "t",
        "name": "n",
        "role": "reader",
        "digest": "d",
        "waitpoint_id": "w",
        "text": "t",
        "lane_id": "default",
    }
    command = kind(**{name: value for name, value in given.items() if name in kind.__struct_fields__})
    with refused("not_offered"):
        await side.client.apply(command)
    (answer,) = await side.client.apply_many([command])
    assert kind.__name__ in str(answer)
    assert NOT_OFFERED[kind] in str(answer)


async def test_the_engine_does_not_run_over_http(ff: Driver, side: OverHttp) -> None:
    client = side.client
    for ask in (client.now, client.next_due, lambda: client.expect_due(1)):
        with refused("not_offered"):
            ask()
    for work in (
        client.acquire_leader_lease("a", "b", 1),
        client.release_leader_lease("a", "b"),
        client.collect(),
        client.repair(),
        client.dump(),
    ):
        with refused("not_offered"):
            await work
    with refused("not_offered"):
        async with client.subscribe(["due"]):
            pass
