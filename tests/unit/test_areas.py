"""One vocabulary of areas: operations and their tests are found under the same names."""

from __future__ import annotations

from pathlib import Path

from flowfabric.model.operations import catalog

AREAS = {
    "create",
    "claim",
    "grant",
    "lease",
    "finish",
    "operate",
    "lane",
    "suspend",
    "signal",
    "stream",
    "step",
    "timer",
    "worker",
    "access",
    "kind",
    "read",
}
ACROSS = {"batches", "refusals", "transitions", "wakeups"}
"""Tests that concern several areas."""
TESTS = Path(__file__).parents[1] / "conformance"


def area(name: str) -> str:
    return name.partition("_")[0]


def test_operations_are_in_modules_of_areas() -> None:
    names = {module.__name__.rpartition(".")[2] for module in catalog.AREAS}
    assert {area(name) for name in names} == AREAS
    assert {kind.__module__.rpartition(".")[2] for kind in catalog.decidable()} == names


def test_conformance_tests_are_named_after_areas() -> None:
    names = {area(path.stem.removeprefix("test_")) for path in TESTS.glob("test_*.py")}
    assert names == AREAS | ACROSS
