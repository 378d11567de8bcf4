"""The reference of the Python API: nothing public is missing, and everything has words."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import flowfabric
from flowfabric import app, testing, worker
from tools.api_pages import entries, note_of, shown_attributes, shown_methods
from tools.api_rooms import HIDDEN
from tools.docstrings import first_sentence, markdown

ENTRIES = entries()


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


def test_the_pages_come_from_docstrings() -> None:
    text = "One. Two `Run`::\n\n    a = 1\n\n    b = 2\n\nThree."
    link = {"Run": "run.md#run"}
    assert first_sentence(text) == "One."
    assert markdown(text, lambda name: link.get(name, "")) == (
        "One. Two [`Run`](run.md#run):\n\n```python\na = 1\n\nb = 2\n```\n\nThree.\n"
    )
