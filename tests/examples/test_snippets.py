"""Every piece of Python in the README, the tutorial and the guides stands in a file that a test runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "tutorial.md"] + [
    ROOT / "docs" / "guides" / f"{name}.md"
    for name in (
        "retries-and-timeouts",
        "waiting-for-people",
        "streams",
        "code-changes",
        "deploying",
        "operating",
    )
]
SOURCES = [
    path.read_text(encoding="utf-8").splitlines()
    for folder in (ROOT / "examples", ROOT / "tests" / "examples")
    for path in sorted(folder.rglob("*.py"))
]


def stands_in(snippet: list[str], source: list[str]) -> bool:
    """Whether the lines follow each other there, all of them indented by the same."""
    first = snippet[0]
    for start, line in enumerate(source):
        indent = line.removesuffix(first)
        if line.endswith(first) and not indent.strip():
            there = source[start : start + len(snippet)]
            if there == [f"{indent}{each}" if each else "" for each in snippet]:
                return True
    return False


def test_the_comparison_is_strict() -> None:
    source = ["def f():", "    a = 1", "", "    b = 2"]
    assert stands_in(["a = 1", "", "b = 2"], source)
    assert not stands_in(["a = 1", "b = 2"], source)
    assert not stands_in(["a = 1", "", "    b = 2"], source)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_snippets_are_taken_from_what_runs(page: Path) -> None:
    snippets = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for snippet in snippets:
        lines = snippet.splitlines()
        assert any(stands_in(lines, source) for source in SOURCES), f"no file has this:\n{snippet}"
