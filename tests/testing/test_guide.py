"""The tests of the guide run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

GUIDE = (Path(__file__).parents[2] / "docs/guides/testing.md").read_text(encoding="utf-8")
PROGRAM, *SUITE = re.findall("```python\n(.*?)```", GUIDE, re.DOTALL)
(SETTINGS,) = re.findall("```toml\n(.*?)```", GUIDE, re.DOTALL)

pytest_plugins = ["pytester"]


@pytest.mark.parametrize("name", re.findall(r"async def (test_\w+)", PROGRAM))
async def test_a_test_of_the_guide(name: str) -> None:
    module: dict[str, Any] = {"__name__": "guide"}
    exec(compile(PROGRAM, "testing.md", "exec"), module)
    await module[name]()


def test_the_suite_of_the_guide(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml(f'{SETTINGS}flowfabric_stores = "sqlite valkey"\n')
    pytester.makepyfile(f"{PROGRAM}\n" + "\n\n".join(SUITE))
    pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:xdist").assert_outcomes(passed=7)
