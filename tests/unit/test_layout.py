"""The shape of the house: sizes of modules, and what users may import."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import flowfabric
from flowfabric import storage
from flowfabric.model import errors

ROOT = Path(__file__).parents[2]
MAX_LINES = 500
MODULES = sorted(path for room in ("src", "tests", "bench") for path in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_stays_small(module: Path) -> None:
    assert len(module.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


def test_everything_exported_exists() -> None:
    assert flowfabric.__all__ == sorted(flowfabric.__all__)
    assert all(hasattr(flowfabric, name) for name in flowfabric.__all__)


def test_the_facade_is_what_the_rooms_hold() -> None:
    assert flowfabric.errors.NotFound is errors.NotFound
    assert flowfabric.FlowFabricError is errors.FlowFabricError
    assert flowfabric.open_store is storage.open_store


def test_the_version_is_a_release_number() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", flowfabric.__version__)
