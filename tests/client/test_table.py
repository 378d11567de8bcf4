"""Which operations cross HTTP, exactly; and what the others say."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.client.operations import NOT_OFFERED, OPERATIONS
from flowfabric.client.questions import PATHS, answer_type
from flowfabric.model.command import Command
from flowfabric.model.operations.catalog import decidable
from flowfabric.server.records import QUESTIONS
from flowfabric.server.routes import load_routes
from flowfabric.server.routing import endpoints
from support.driver import Driver
from support.expect import refused
from support.over_http import BEHIND, OverHttp

STAY_INSIDE = {
    "MarkLeaseExpired", "PromoteDelayed", "ExpireSuspension", "ExpireExecution", "ExpireWaitpoints", "Purge",
    "LoseDeadLease", "SeedSecret", "RotateSecret", "Block", "Unblock", "OpenLane", "CreateToken", "DeleteToken",
    "ListTokens", "SignLink", "ReadCursorKeys", "ListKids", "ReadDue", "FindClaimable",
}  # fmt: skip
"""The engine's own, and administration of secrets. Nothing else may go around HTTP in the suites."""


def every_command() -> set[type[Command[Any]]]:
    return set(decidable())


def test_every_operation_is_in_one_table() -> None:
    tables: list[set[Any]] = [set(OPERATIONS), set(PATHS), set(NOT_OFFERED)]
    assert set[Any]().union(*tables) == every_command()
    assert sum(len(table) for table in tables) == len(every_command())


def test_what_goes_around_http_is_listed_here() -> None:
    assert {kind.__name__ for kind in BEHIND} == {kind.__name__ for kind in NOT_OFFERED} == STAY_INSIDE


def template(path: str) -> str:
    return "/".join("{}" if part.startswith("{") else part for part in path.split("/"))


def test_every_operation_has_a_route() -> None:
    load_routes()
    known = {(route.method, template(route.path)) for route in endpoints()}
    for kind, operation in OPERATIONS.items():
        assert (operation.method, template(operation.path)) in known, kind
    for question, path in PATHS.items():
        assert ("GET", template(path)) in known, question


def test_client_and_server_agree_where_questions_are_asked() -> None:
    server = {kind: template(path) for path, kinds in QUESTIONS.items() for kind in kinds}
    assert server == {kind: template(path) for kind, path in PATHS.items()}
    for kind in PATHS:
        assert answer_type(kind) is not None


@pytest.mark.parametrize("kind", sorted(NOT_OFFERED, key=str))
async def test_what_stays_inside_says_so(side: OverHttp, kind: type[Command[Any]]) -> None:
    given: dict[str, Any] = {
        "execution_id": "{fp:1}:00000000-0000-4000-8000-000000000001", "worker_instance_id": "w", "kid": "k",
        "new_kid": "k", "secret_hex": "00", "new_secret_hex": "00", "grace_ms": 1, "blocking_reason": "x",
        "token_id": "t", "name": "n", "role": "reader", "digest": "d", "waitpoint_id": "w", "text": "t",
        "lane_id": "default",
    }  # fmt: skip
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
        client.acquire_leader_lease("a", "b", 1), client.release_leader_lease("a", "b"), client.collect(),
        client.repair(), client.dump(),
    ):  # fmt: skip
        with refused("not_offered"):
            await work
    with refused("not_offered"):
        async with client.subscribe(["due"]):
            pass
