"""Every piece of Python in the README, the tutorial and the guides is run by a test, and so is every command."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import flowfabric
import flowfabric.testing

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
RUN_BY = {
    "cli": "tests/cli/test_guide.py",
    "client": "tests/client/test_guide.py",
    "embedding": "tests/examples/test_guide_embedding.py",
    "server": "tests/examples/test_guide_server.py",
    "testing": "tests/testing/test_guide.py",
}
"""Pages whose Python is run as it stands, by a test of their own."""
TYPED_BY = {
    "README": "tests/examples/test_guide_server.py",
    "cli": "tests/cli/test_guide.py",
    "deploying": "tests/examples/test_guide_deploying.py",
    "http-session": "tests/server/test_session.py",
    "operating": "tests/examples/test_guide_operating.py",
    "server": "tests/examples/test_guide_server.py",
    "tasks": "tests/examples/test_guide_tasks.py",
    "tutorial": "tests/examples/test_tutorial.py",
    "valkey": "tests/examples/test_guide_server.py",
    "waiting-for-people": "tests/examples/test_guide_waiting.py",
}
"""Pages whose commands are typed as they stand, by a test of their own."""
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


def is_head(snippet: str) -> bool:
    """Whether a snippet imports and declares, and does nothing else: then it is run as it stands."""
    declares = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.ClassDef)
    return all(isinstance(statement, declares) for statement in ast.parse(snippet).body)


def names_in(page: Path) -> tuple[set[str], dict[str, str]]:
    """Return the names that the snippets of a page use, and those that they import, with their modules."""
    used: set[str] = set()
    imported: dict[str, str] = {}
    for snippet in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        lines = [f"    {line}" for line in snippet.splitlines()]
        opens = lines[-1].endswith(":")  # a head whose body is left out
        for node in ast.walk(ast.parse("\n".join(["async def _():", *lines, *(["        ..."] * opens)]))):
            if isinstance(node, ast.Name):
                used.add(node.id)
            elif isinstance(node, ast.ImportFrom):
                imported |= {alias.name: node.module or "" for alias in node.names}
    return used, imported


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_imports_what_it_uses_from_public_modules(page: Path) -> None:
    used, imported = names_in(page)
    public = {*flowfabric.__all__, *flowfabric.testing.__all__} & used
    assert public <= imported.keys()
    ours = {module for module in imported.values() if module.startswith("flowfabric")}
    assert ours <= {"flowfabric", "flowfabric.commands", "flowfabric.server", "flowfabric.testing"}


def test_the_comparison_is_strict() -> None:
    source = ["def f():", "    a = 1", "", "    b = 2"]
    assert stands_in(["a = 1", "", "b = 2"], source)
    assert not stands_in(["a = 1", "b = 2"], source)
    assert not stands_in(["a = 1", "", "    b = 2"], source)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_snippets_are_taken_from_what_runs(page: Path) -> None:
    if page.stem in RUN_BY:
        assert page.name in (ROOT / RUN_BY[page.stem]).read_text(encoding="utf-8")
        return
    snippets = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for snippet in snippets:
        lines = snippet.splitlines()
        if lines[0].startswith(("import ", "from ")) and is_head(snippet):
            exec(compile(snippet, page.name, "exec", dont_inherit=True), {"__name__": "head"})
            continue
        assert any(stands_in(lines, source) for source in SOURCES), f"no file has this:\n{snippet}"


def test_commands_are_typed_by_somebody() -> None:
    with_commands = {page.stem for page in PAGES if "```sh\n" in page.read_text(encoding="utf-8")}
    assert with_commands <= TYPED_BY.keys()
    for name, test in TYPED_BY.items():
        assert f"{name}.md" in (ROOT / test).read_text(encoding="utf-8")
