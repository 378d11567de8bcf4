from __future__ import annotations

import re
from typing import Any

import pytest

from flowfabric.model import limits
from flowfabric.model.command import Command
from flowfabric.model.operations.catalog import AREAS, decidable
from tools.generate_docs import FOLDER, PAGES, answer_of, fields_of


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_says_what_the_code_says(name: str) -> None:
    written = (FOLDER / name).read_text(encoding="utf-8")
    assert written == PAGES[name](), "run `make docs` and commit what it wrote"


def test_every_operation_is_in_a_module_that_is_documented() -> None:
    documented = {module.__name__ for module in AREAS}
    assert {kind.__module__ for kind in decidable()} <= documented


def _name(kind: type[Command[Any]]) -> str:
    return kind.__name__


KINDS: list[type[Command[Any]]] = [*decidable()]
KINDS.sort(key=_name)


@pytest.mark.parametrize("kind", KINDS, ids=_name)
def test_no_field_and_no_answer_is_missing(kind: type[Command[Any]]) -> None:
    assert sorted(field.name for field in fields_of(kind)) == sorted(kind.__struct_fields__)
    assert answer_of(kind)


def test_the_guide_states_the_limits_that_hold() -> None:
    guide = (FOLDER.parent / "guides" / "embedding.md").read_text(encoding="utf-8")
    stated = re.findall(r"^\| .+ \| ([0-9 ]+) \| `(\w+)` \|$", guide, re.MULTILINE)
    assert len(stated) > 20
    assert {name: int(number.replace(" ", "")) for number, name in stated} == {
        name: getattr(limits, name) for _, name in stated
    }
