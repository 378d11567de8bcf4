"""The transition table: every row can be reached, and leads where it says."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model import state, transitions
from flowfabric.model.state import Vector, is_legal
from flowfabric.model.transitions import TRANSITIONS, Transition
from support.driver import Driver
from support.paths import NEED_FLOWS, PATHS


def test_every_row_has_a_path() -> None:
    assert set(PATHS) == {row.number for row in TRANSITIONS} - NEED_FLOWS


@pytest.mark.parametrize("row", sorted(PATHS))
async def test_row_leads_to_its_state_and_leaves_its_event(ff: Driver, row: str) -> None:
    walk, vector, public, event = PATHS[row]
    execution_id = await walk(ff)
    assert await ff.vector(execution_id) == (*vector.split(), public)
    run = await ff.show(execution_id)
    assert is_legal(transitions.vector_of(run))
    assert run.last_transition_at == ff.now
    history = await ff.history(execution_id)
    assert [line.seq for line in history] == list(range(1, len(history) + 1))
    assert event in [line.event for line in history][-2:]
    assert history[-1].to_state == public
    assert [line.from_state for line in history[1:]] == [line.to_state for line in history[:-1]]
    assert (history[-1].attempt_index, history[-1].lease_epoch) == (
        run.attempt.index,
        run.current_lease_epoch,
    )
    assert (await ff.store.repair(fix=False)).wrong == ()
    counts = (await ff.store.dump()).counts
    assert {key: count for key, count in counts.items() if count} == {("default", "default", public): 1}


@pytest.mark.parametrize("row", TRANSITIONS, ids=lambda row: row.number)
def test_row_leads_to_a_legal_state(row: Transition) -> None:
    if None in row.to:
        assert any(is_legal(vector) for vector in _completions(row))
    else:
        assert is_legal(Vector(*row.to))  # type: ignore[arg-type]


def _completions(row: Transition) -> list[Vector]:
    """Every way to fill what the row leaves open."""
    vectors: list[list[Any]] = [[]]
    for given, kind in zip(row.to, Vector.__annotations__.values(), strict=True):
        options = [given] if given is not None else list(_enum(kind))
        vectors = [[*start, option] for start in vectors for option in options]
    return [Vector(*vector) for vector in vectors]


def _enum(annotation: Any) -> Any:
    """The values of one dimension, whose annotation is a name of its module."""
    return getattr(state, getattr(annotation, "__forward_arg__", None) or annotation.__name__)
