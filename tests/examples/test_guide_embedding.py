"""What docs/guides/embedding.md shows, as it stands there."""

from __future__ import annotations

import ast
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flowfabric.storage.sqlite import SqliteStore
from support.shell import blocks

OPEN, SAFE, BACKUP = blocks("docs/guides/embedding.md", "python")


async def run(source: str, names: dict[str, Any]) -> None:
    """Run some lines that await as if they stood in a coroutine."""
    awaited = eval(compile(source, "embedding.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if awaited is not None:
        await awaited


async def test_the_snippets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    await run(OPEN, names)
    assert isinstance(names["store"], SqliteStore)
    await run(SAFE, names)
    await names["store"].close()
    await run(BACKUP, names)
    with closing(sqlite3.connect("backup.db")) as copy:
        assert copy.execute("select count(*) from keyring").fetchone() == (1,)
