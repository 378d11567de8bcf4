"""The guide's program runs as it stands, and its lists are those of the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from flowfabric.client.requests import NOT_OFFERED
from flowfabric.storage.sqlite import SqliteStore
from support.over_http import served

GUIDE = (Path(__file__).parents[2] / "docs/guides/client.md").read_text(encoding="utf-8")


async def test_the_program_of_the_guide(capsys: pytest.CaptureFixture[str]) -> None:
    found = re.search("```python\n(.*?)```", GUIDE, re.DOTALL)
    assert found is not None
    program: dict[str, Any] = {"__name__": "guide"}
    exec(compile(found[1], "client.md", "exec"), program)
    store = await SqliteStore.open(":memory:")
    async with served(store) as url:
        await program["main"](url)
    await store.close()
    assert capsys.readouterr().out == "completed hello, world\n"


def test_the_guide_names_all_that_stays_inside() -> None:
    listed = set(re.findall("`([A-Z][A-Za-z]+)`", GUIDE[GUIDE.index("These stay inside the server") :]))
    assert listed == {kind.__name__ for kind in NOT_OFFERED}
