"""The reference of the Python API: nothing public is missing, everything has words, and its examples are Python."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import pytest

import flowfabric
from flowfabric import app, testing, worker
from tools import api_pages
from tools.api_pages import entries, note_of, shown_attributes, shown_methods
from tools.api_rooms import HIDDEN, ROOMS, Room
from tools.docstrings import first_sentence, markdown

ENTRIES = entries()
WHO = {
    "app": flowfabric.FlowFabric,
    "run": flowfabric.Run,
    "ctx": flowfabric.Context,
    "lab": testing.Lab,
    "worker": worker.Worker,
    "task": worker.ClaimedTask,
}
"""What the names in examples stand for."""


@pytest.mark.parametrize("module", [flowfabric, app, testing, worker], ids=lambda module: module.__name__)
def test_nothing_public_is_missing(module: Any) -> None:
    assert {*module.__all__} - {"__version__", "errors"} <= ENTRIES.keys()


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_everything_that_is_shown_has_words(name: str) -> None:
    entry = ENTRIES[name]
    assert note_of(entry).endswith((".", "```", ")", "…")) or "::" in note_of(entry)
    if inspect.isclass(entry.thing):
        own, _ = shown_methods(entry)
        dumb = [each.name for each in shown_attributes(entry) if not each.note]
        dumb += [each.name for each in own if not each.note]
        assert not dumb, f"{name} says nothing about them"


def test_what_is_hidden_exists() -> None:
    for name, hidden in HIDDEN.items():
        assert all(hasattr(ENTRIES[name].thing, each) for each in hidden), name


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.file)
def test_examples_are_python_and_use_what_is_there(room: Room) -> None:
    page = api_pages.page(room)
    examples = [
        block
        for block in re.findall(r"```python\n(.*?)\n```", page, re.DOTALL)
        if not re.match(r"(async )?def \w+\(|[A-Z]\w+\(", block)
        and not block.startswith("@app.task(retries=5")
    ]
    assert examples
    for example in examples:
        tree = compile(example, room.file, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in WHO:
                assert hasattr(WHO[node.value.id], node.attr) or node.attr in {"id", "clock"}, ast.unparse(
                    node
                )


def test_the_pages_come_from_docstrings() -> None:
    text = "One. Two `Run`::\n\n    a = 1\n\n    b = 2\n\nThree."
    link = {"Run": "run.md#run"}
    assert first_sentence(text) == "One."
    assert markdown(text, lambda name: link.get(name, "")) == (
        "One. Two [`Run`](run.md#run):\n\n```python\na = 1\n\nb = 2\n```\n\nThree.\n"
    )
