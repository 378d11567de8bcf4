"""Signals on trees: nested conditions, and counting that each node does for itself."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.operations.signal import ObserveSignals
from support.driver import Driver
from support.waiting import (
    APPENDED,
    MATCHER_FAILED,
    NOT_IN_CONDITION,
    REPEATED,
    RESUMED,
    SATISFIED,
    accepted,
    all_of,
    any_on,
    by_name,
    count,
    held,
    open_waitpoints,
    refused,
    stored_waitpoint,
    suspended,
    tree,
)

NEVER = {"kind": "OperatorOnly"}


def sent(line: str, effect: str) -> tuple[str, str, str, str]:
    """One signal as `key name source`, and the effect that it must have."""
    key, name, source = (*line.split(), "", "")[:3]
    return key, name, source, effect


@pytest.mark.parametrize(
    ("root", "signals"),
    [
        pytest.param(
            all_of(by_name("a", "x"), by_name("b", "y")),
            [
                sent("a y", MATCHER_FAILED),
                sent("b y", APPENDED),
                sent("b y", REPEATED),
                sent("a x", SATISFIED),
            ],
            id="all",
        ),
        pytest.param(
            all_of(any_on("a"), any_on("b")),
            [sent("b whatever", APPENDED), sent("a other", SATISFIED)],
            id="wildcards",
        ),
        pytest.param(
            all_of(by_name("a", "x"), by_name("a", "x")),
            [sent("a x", SATISFIED)],
            id="one signal may satisfy two leaves",
        ),
        pytest.param(
            count(2, "Signals", "a", "b"),
            [sent("a x", APPENDED), sent("a x", SATISFIED)],
            id="signals",
        ),
        pytest.param(
            count(2, "Signals", "a", "b", name="x"),
            [sent("a y", MATCHER_FAILED), sent("a x", APPENDED), sent("b x", SATISFIED)],
            id="signals of one name",
        ),
        pytest.param(
            count(2, "Waitpoints", "a", "b", "c"),
            [sent("a x", APPENDED), sent("a y", REPEATED), sent("c x", SATISFIED)],
            id="waitpoints",
        ),
        pytest.param(
            count(2, "Sources", "a", "b"),
            [sent("a x ann", APPENDED), sent("b y ann", REPEATED), sent("a x bob", SATISFIED)],
            id="sources",
        ),
        pytest.param(
            count(1, "Signals", "a", "b", "c"),
            [sent("c x", SATISFIED)],
            id="any of",
        ),
        pytest.param(
            all_of(count(1, "Signals", "a"), count(1, "Signals", "b")),
            [sent("a x", APPENDED), sent("a x", APPENDED), sent("b x", SATISFIED)],
            id="two counts of a kind",
        ),
        pytest.param(
            all_of(count(2, "Sources", "a"), count(2, "Sources", "b")),
            [
                sent("a x ann", APPENDED),
                sent("b x bob", APPENDED),
                sent("b x ann", APPENDED),
                sent("a x ann", REPEATED),
                sent("a x bob", SATISFIED),
            ],
            id="two counts of sources",
        ),
        pytest.param(
            all_of(count(2, "Waitpoints", "a", "b", name="x"), count(2, "Waitpoints", "a", "b", name="y")),
            [
                sent("a x", APPENDED),
                sent("b y", APPENDED),
                sent("b x", APPENDED),
                sent("b y", REPEATED),
                sent("a z", MATCHER_FAILED),
                sent("a y", SATISFIED),
            ],
            id="two counts over the same waitpoints",
        ),
        pytest.param(
            all_of(all_of(all_of(count(2, "Signals", "a"))), by_name("b", "x")),
            [sent("a x", APPENDED), sent("b x", APPENDED), sent("a x", SATISFIED)],
            id="a count deep inside",
        ),
        pytest.param(
            all_of(any_on("a"), all_of(any_on("b"), all_of(by_name("c", "x"), by_name("d", "x")))),
            [sent("d x", APPENDED), sent("c x", APPENDED), sent("b x", APPENDED), sent("a x", SATISFIED)],
            id="leaves at every depth",
        ),
    ],
)
async def test_trees(ff: Driver, root: dict[str, Any], signals: list[tuple[str, str, str, str]]) -> None:
    wait = await suspended(ff, tree(root))
    for key, name, source, effect in signals:
        assert await wait.vector() == held("waiting_for_signal")
        assert await wait.signal(name, key, source_type="human", source_identity=source) == effect
    assert await wait.vector() == RESUMED


async def test_a_source_is_its_type_and_its_name(ff: Driver) -> None:
    wait = await suspended(ff, tree(count(3, "Sources", "a")))
    assert await wait.signal("x", source_type="human", source_identity="ann") == APPENDED
    assert await wait.signal("x", source_type="robot", source_identity="ann") == APPENDED
    assert await wait.signal("x", source_type="robot", source_identity="ann") == REPEATED
    assert await wait.signal("x") == SATISFIED


@pytest.mark.parametrize(
    "never", [{"kind": "OperatorOnly"}, {"kind": "TimeoutOnly"}, {"kind": "NeverBySignal"}]
)
async def test_a_leaf_for_an_operator_is_never_satisfied_by_signals(
    ff: Driver, never: dict[str, Any]
) -> None:
    wait = await suspended(ff, tree(all_of(by_name("a", "x"), never)))
    assert await wait.signal("x") == APPENDED
    assert await wait.signal("x") == REPEATED
    assert await wait.vector() == held("waiting_for_signal")
    assert await wait.resume() == "waiting"


async def test_a_tree_without_waitpoints_ignores_every_signal(ff: Driver) -> None:
    wait = await suspended(ff, tree(all_of(NEVER)))
    assert await wait.signal("x") == NOT_IN_CONDITION
    assert await wait.vector() == held("waiting_for_signal")


async def test_the_closing_signal_and_all_satisfiers_are_kept(ff: Driver) -> None:
    wait = await suspended(ff, tree(all_of(by_name("a", "x"), count(2, "Signals", "b"))))
    commands = [wait.delivery("y", "b"), wait.delivery("x", "a"), wait.delivery("z", "b")]
    await wait.signal("noise", "a")
    for command in commands:
        ff.clock.advance(1)
        await accepted(ff, command)
    record = await wait.record()
    assert (record.close_reason, record.closer_signal_id) == ("resumed", commands[-1].signal_id)
    assert len(record.satisfiers) == 3
    task = await ff.claim_one()
    assert [signal.signal_id for signal in task.resume_signals] == [command.signal_id for command in commands]
    assert await ff.store.read(ObserveSignals(execution_id=wait.execution_id)) == task.resume_signals


async def test_every_waitpoint_closes_with_the_wait(ff: Driver) -> None:
    wait = await suspended(ff, tree(count(1, "Signals", "a", "b", "c")))
    await wait.signal("x", "b")
    assert await open_waitpoints(ff, wait.execution_id) == ()
    for key in "abc":
        stored = await stored_waitpoint(ff, wait.execution_id, wait.on(key).waitpoint_id)
        assert (stored.state, stored.close_reason) == ("closed", "resumed")
        await refused(ff, wait.delivery("x", key), "target_not_signalable")


async def test_counters_tell_matched_signals_from_others(ff: Driver) -> None:
    wait = await suspended(ff, tree(count(3, "Sources", "a", name="x")))
    for name in ("x", "x", "y"):
        await wait.signal(name)
    stored = await stored_waitpoint(ff, wait.execution_id, wait.waitpoint.waitpoint_id)
    assert stored.signal_count == 3
    assert 1 <= stored.matched_signal_count <= 2
