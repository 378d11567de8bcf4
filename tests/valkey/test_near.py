"""Shared names that become locals of the library."""

from __future__ import annotations

import pytest

from flowfabric.storage.valkey.lua import near
from flowfabric.storage.valkey.lua.near import TooManyLocals


def test_a_shared_name_is_declared_once_and_put_everywhere() -> None:
    source = "function ff.move(run)\n  return ff.copy(run)\nend\nff.copy = ff.move"
    assert near.near(source).splitlines() == [
        "local ff_copy",
        "local ff_move",
        "function ff_move(run)",
        "  return ff_copy(run)",
        "end",
        "ff_copy = ff_move",
    ]


def test_a_function_of_the_server_is_looked_up_when_it_is_first_called() -> None:
    head, body = near.near("redis.call('GET', key)").splitlines()
    assert (
        head
        == "local redis_call redis_call = function(...) redis_call = redis.call return redis_call(...) end"
    )
    assert body == "redis_call('GET', key)"


@pytest.mark.parametrize(
    "source",
    [
        "-- as ff.move does, with redis.call('GET')",
        "local text = 'ff.move and redis.call(x)'",
        "redis.register_function('ff_x', act)",
        "local kind = record.type(1)",
        "space:next(1)",
    ],
)
def test_what_only_looks_like_one_is_left_alone(source: str) -> None:
    assert near.near(source) == source


def test_what_is_seldom_needed_stays_in_the_table() -> None:
    source = "function ff.digest(text)\nend\nff.STATES = {}\nlocal found = ff.digest('x'), ff.other"
    assert near.defined(source) == {"ff.digest", "ff.STATES"}
    assert near.near(source, near.defined(source)).splitlines() == [
        "local ff_other",
        "function ff.digest(text)",
        "end",
        "ff.STATES = {}",
        "local found = ff.digest('x'), ff_other",
    ]


def test_more_names_than_lua_allows_stop_the_build() -> None:
    with pytest.raises(TooManyLocals, match="191 shared names"):
        near.near("\n".join(f"ff.name{number} = 1" for number in range(191)))
