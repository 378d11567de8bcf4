"""Names become places when the library is built, and the names of variables tell the truth."""

from __future__ import annotations

from functools import partial

import pytest

from flowfabric.storage.valkey.connection import client
from flowfabric.storage.valkey.lua import library
from flowfabric.storage.valkey.lua.generated import fields
from flowfabric.storage.valkey.lua.places import HOLDS, INSIDE, UnknownField, places
from support.simulation import run_seed

FORMS = {
    "Execution": ("version", "lane_id", "attempt", "tags"),
    "Attempt": ("index",),
    "Policy": ("version",),
    "Claim": ("lanes", "fence"),
}


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("run.lane_id = begun.version", "run[2] = begun[1]"),
        ("run.attempt.index", "run[3][1]"),
        ("run.tags[1]", "run[4][1]"),
        ("f(run.lane_id..'x')", "f(run[2]..'x')"),
        ("-- run.lane_id\n'run.lane_id' .. run.lane_id", "-- run.lane_id\n'run.lane_id' .. run[2]"),
        ("'it\\'s' .. run.lane_id", "'it\\'s' .. run[2]"),
        (
            "other.run.lane_id, rerun.lane_id, run:lane_id()",
            "other.run.lane_id, rerun.lane_id, run:lane_id()",
        ),
        ("command.lanes", "command.lanes"),
        (
            "ff.operation('ff_x', 'Claim', f(command.lanes, command.fence.a))",
            "ff.operation('ff_x', 'Claim', f(command[1], command[2].a))",
        ),
    ],
)
def test_names_become_places(source: str, text: str) -> None:
    assert places(source, FORMS) == text


def test_a_field_that_is_not_there_stops_the_build() -> None:
    with pytest.raises(UnknownField, match=r"run\.attempt\.lane_id: a Attempt has no field lane_id"):
        places("run.attempt.lane_id", FORMS)


def test_a_checked_library_asks_at_each_access() -> None:
    text = places("run.attempt.index = 1", FORMS, checked=True)
    assert text == "ff.known(ff.known(run, 'Execution')[3], 'Attempt')[1] = 1"


def test_variables_hold_what_there_is() -> None:
    assert set(HOLDS.values()) <= {*fields(), *INSIDE}


@pytest.mark.timeout(120)
async def test_variables_hold_what_their_names_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a variable held something else, a place would read a wrong field in silence; here it is an error."""
    checked = partial(library.library, checked=True)
    monkeypatch.setattr(client, "library", checked)
    monkeypatch.setattr(library, "library", checked)
    for seed in range(700_000, 700_060):
        await run_seed(seed, ("memory", "valkey"), 60)
