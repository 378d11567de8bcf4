"""`ff admin` and `ff server` without a server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flowfabric.cli.commands.admin.partition_collisions import report, severity
from flowfabric.model.ids import partition_of
from flowfabric.variables import VARIABLES

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "server.md"


def ff(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("FF_")}
    return subprocess.run(
        [sys.executable, "-m", "flowfabric.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env={**ours, **environ},
    )


def test_one_lane_collides_with_nothing() -> None:
    ended = ff("admin", "partition-collisions")
    home = partition_of(b"default", 256)
    assert ended.returncode == 0
    assert ended.stdout.splitlines() == [
        "partition count: 256",
        "lanes configured: 1",
        "lanes colliding: 0 (0.0%)",
        "severity: Clean",
        "",
        "partition | lane | collides_with",
        f"{home} | default | -",
    ]


def test_collisions_are_told_with_remedies() -> None:
    lines = report(("c", "a", "b"), 1)
    assert lines[2:4] == ["lanes colliding: 3 (100.0%)", "severity: Remediate"]
    assert lines[6:9] == ["0 | a | b, c", "0 | b | a, c", "0 | c | a, b"]
    assert sum(line.startswith("  ") for line in lines) == 3


def test_programs_get_the_same_as_json() -> None:
    ended = ff("admin", "partition-collisions", "--json", FF_LANES="c,a,b", FF_FLOW_PARTITIONS="1")
    assert (ended.returncode, json.loads(ended.stdout)) == (
        0,
        {
            "partitions": 1,
            "lanes": 3,
            "colliding": 3,
            "severity": "Remediate",
            "homes": [{"partition": 0, "lanes": ["a", "b", "c"]}],
        },
    )


def test_a_check_of_settings_is_json_for_programs() -> None:
    ended = ff("server", "--check", "--json", "--store", "work.db", "--listen", "127.0.0.1:1")
    told = json.loads(ended.stdout)
    assert (ended.returncode, ended.stderr, told["good"]) == (0, "", True)
    assert (told["store"], told["listen"], told["waitpoint_secret"]) == (
        "work.db",
        "127.0.0.1:1",
        "kept in the store",
    )


@pytest.mark.parametrize(
    ("percent", "name"),
    [(0, "Clean"), (0.1, "Watch"), (4.9, "Watch"), (5, "Elevated"), (15, "Elevated"), (15.1, "Remediate")],
)
def test_severity(percent: float, name: str) -> None:
    assert severity(percent) == name


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"FF_LANES": "a,a"}, "named twice"),
        ({"FF_LANES": "é"}, "FF_LANES"),
        ({"FF_FLOW_PARTITIONS": "0"}, "FF_FLOW_PARTITIONS"),
        ({"FF_QUOTA_PARTITIONS": "x"}, "expected u16"),
    ],
)
def test_bad_input_ends_with_two(environ: dict[str, str], message: str) -> None:
    ended = ff("admin", "partition-collisions", **environ)
    assert (ended.returncode, message in ended.stderr) == (2, True)


def test_an_unknown_action_ends_with_two() -> None:
    assert ff("admin", "nonsense").returncode == 2


def test_the_guide_names_every_variable() -> None:
    guide = GUIDE.read_text("utf-8")
    assert [variable.name for variable in VARIABLES if f"`{variable.name}`" not in guide] == []
    for variable in VARIABLES:
        assert not variable.used or variable.meaning in guide
