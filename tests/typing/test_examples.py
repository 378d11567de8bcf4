"""Every example of a public docstring is a program that mypy has nothing against."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

import pytest

from support.checking import SECONDS, run
from tools.api_pages import page
from tools.api_rooms import ROOMS

HEAD = """
import asyncio
import pickle
from typing import Any

from flowfabric import *
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.read import Describe
from flowfabric.storage.base import Upkeep
from flowfabric.testing import *
from flowfabric.worker import *

app = FlowFabric()
texts = ["text"]
doc = execution_id = "text"
screen: Any = None

class Client:
    async def __aenter__(self) -> "Client": ...
    async def __aexit__(self, *_: object) -> None: ...

def write_draft(doc: str) -> str: ...
def send_mail(waitpoint: str, token: str) -> None: ...
def collect_rows(month: str) -> list[str]: ...

@app.task
async def review(ctx: Context, doc: str, pages: int = 1) -> bool: ...

@app.task
async def remind(address: str) -> str: ...

@app.task
async def download(url: str) -> bytes: ...

@app.task
def resize(path: str, width: int = 80) -> str: ...
"""
GIVEN = {"ctx": "Context", "run": "Run[Any]", "lab": "Lab", "store": "Upkeep", "waitpoint": "Waitpoint"}
"""What an example may use without making it."""


def examples() -> list[str]:
    """Collect all blocks of the reference that are not signatures."""
    blocks = [
        block for room in ROOMS for block in re.findall(r"```python\n(.*?)\n```", page(room), re.DOTALL)
    ]
    return [block for block in blocks if not re.match(r"(async )?def \w+\(|[A-Z]\w+\(", block)]


def function(number: int, block: str) -> str:
    """Put an example into a function that is given what it does not make itself."""
    tree = compile(block, "example", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    made = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    used = {node.id for node in names} - made
    given = ", ".join(f"{name}: {kind}" for name, kind in GIVEN.items() if name in used)
    return f"async def example_{number}({given}) -> None:\n{textwrap.indent(block, '    ')}\n"


@pytest.mark.timeout(SECONDS + 10)
def test_examples_of_docstrings(tmp_path: Path) -> None:
    blocks = examples()
    assert len(blocks) > 25
    wrong = ['await ctx.slep("1d")', "await lab.submit(remind, 3)"]
    text = HEAD + "\n\n".join(function(number, block) for number, block in enumerate([*blocks, *wrong]))
    (tmp_path / "examples.py").write_text(text, encoding="utf-8")
    options = ("--disable-error-code", "empty-body", "--check-untyped-defs", "--no-error-summary")
    ended = run("mypy", *options, "--cache-dir", str(tmp_path), "examples.py", folder=tmp_path)
    errors = [line for line in ended.stdout.splitlines() if " error: " in line]
    assert len(errors) == len(wrong), ended.stdout
    assert '"slep"' in errors[0]
    assert "submit" in errors[1]
