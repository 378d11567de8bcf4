"""Code that pages for contributors show is what the files have, and files that they name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "valkey.md"]


def test_the_example_of_an_operation_is_what_the_files_have() -> None:
    text = (ROOT / "docs" / "valkey.md").read_text(encoding="utf-8")
    shown = re.findall(r"^`(src/[^`]+)`:\n\n```\w+\n(.*?)```", text, re.DOTALL | re.MULTILINE)
    assert len(shown) == 2
    for path, code in shown:
        assert code in (ROOT / path).read_text(encoding="utf-8"), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_and_folders_that_are_named_exist(page: Path) -> None:
    named = re.findall(
        r"`((?:src|tests|docs|examples|bench|tools)/[\w/.-]*)`", page.read_text(encoding="utf-8")
    )
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_modules_of_the_store_on_valkey_exist() -> None:
    text = (ROOT / "docs" / "valkey.md").read_text(encoding="utf-8")
    table = text[text.index("| Where | What |") :].split("\n\n")[0]
    named = re.findall(r"`([\w/]+\.(?:py|lua))`", "\n".join(row.split("|")[1] for row in table.splitlines()))
    folder = ROOT / "src" / "flowfabric" / "storage" / "valkey"
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*.*")}
    found |= {path.removeprefix("lua/") for path in found}
    assert len(named) > 10
    assert [name for name in named if name not in found] == []
