"""Follow CONTRIBUTING to add an operation to a copy of the project, and run it on every store and over HTTP."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.stores import GENERAL, STORES

ROOT = Path(__file__).parents[2]
COPIED = ("src", "tests", "tools", "docs", "pyproject.toml")
SNIPPET = re.compile(r"^Add to `([^`]+)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FUTURE = "from __future__ import annotations\n"


def snippets() -> dict[str, str]:
    """Return the code that the recipe adds, by the file it is added to."""
    return dict(SNIPPET.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))


def add(module: Path, code: str) -> None:
    """Add code to a module: its imports at the top, the rest at the end."""
    lines = code.splitlines(keepends=True)
    imports = [node for node in ast.parse(code).body if isinstance(node, ast.Import | ast.ImportFrom)]
    end = max((node.end_lineno or 0 for node in imports), default=0)
    text = module.read_text(encoding="utf-8")
    assert text.count(FUTURE) == 1, module
    text = text.replace(FUTURE, FUTURE + "".join(lines[:end]))
    module.write_text(text + "\n\n" + "".join(lines[end:]).lstrip("\n"), encoding="utf-8")


def run(folder: Path, *command: str) -> str:
    """Run a module of Python in the copy, with the copy's code; return what it prints."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("COVERAGE", "FF_", "PYTEST"))
    }
    ended = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**inherited, "PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.timeout(300)
def test_an_operation_added_by_the_recipe_works_everywhere(tmp_path: Path) -> None:
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    added = snippets()
    for path, code in added.items():
        add(tmp_path / path, code)
    assert len([path for path in added if path.startswith("src/")]) == 2

    run(tmp_path, "ruff", "check", "--quiet", "--select", "I", "--fix", *added)
    run(tmp_path, "ruff", "format", "--quiet", *added)
    run(tmp_path, "ruff", "check", "--quiet", *added)

    (suite,) = (path for path in added if path.startswith("tests/"))
    tests = re.findall(r"^async def (test_\w+)", added[suite], re.MULTILINE)
    shown = run(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", suite, "-k", " or ".join(tests))
    assert f"{len(tests) * (len(STORES) + len(GENERAL) + 1)} passed" in shown

    run(tmp_path, "tools.generate_docs")
    assert "RemoveTags" in (tmp_path / "docs/reference/operations.md").read_text(encoding="utf-8")
    assert '"remove_tags"' in (tmp_path / "docs/reference/openapi.json").read_text(encoding="utf-8")
