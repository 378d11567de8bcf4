"""Signals on lists of names: what counts, what is recorded, what is remembered, and what comes too late."""

from __future__ import annotations

import os
from typing import Any

import pytest

from flowfabric.model.conditions import list_condition, operator_only, timeout_only
from flowfabric.model.limits import MAX_SIGNAL_BYTES
from flowfabric.model.operations.finish import Cancel
from flowfabric.model.operations.signal import ObserveSignals, SignalDuplicate
from flowfabric.model.records import Signal
from support.driver import Driver
from support.waiting import (
    APPENDED,
    BUFFERED,
    NO_OP,
    RESUMED,
    SATISFIED,
    accepted,
    all_of,
    by_name,
    delivery,
    held,
    open_pending,
    pending,
    refused,
    stored_waitpoint,
    suspend,
    suspended,
    tree,
)


async def stored_signals(ff: Driver) -> list[Signal]:
    return sorted((await ff.store.dump()).records["signal"].values(), key=lambda signal: signal.number)


@pytest.mark.parametrize(
    ("names", "mode", "minimum", "sent"),
    [
        (["a", "b"], "any", 1, [("c", NO_OP), ("b", SATISFIED)]),
        (["a", "b"], "all", 1, [("b", APPENDED), ("b", NO_OP), ("a", SATISFIED)]),
        (["a", "b", "a"], "all", 1, [("a", APPENDED), ("b", APPENDED), ("a", SATISFIED)]),
        (["a", "b", "a"], "all", 1, [("a", APPENDED), ("a", APPENDED), ("a", NO_OP), ("b", SATISFIED)]),
        (["a", "b", "c"], "count", 2, [("c", APPENDED), ("c", NO_OP), ("x", NO_OP), ("a", SATISFIED)]),
        (["a", "a", "b"], "count", 2, [("a", APPENDED), ("a", SATISFIED)]),
        ([], "any", 1, [("whatever", SATISFIED)]),
        ([], "count", 3, [("x", APPENDED), ("x", APPENDED), ("y", SATISFIED)]),
        (["a", ""], "all", 1, [("z", APPENDED), ("z", NO_OP), ("a", SATISFIED)]),
        (["A"], "any", 1, [("a", NO_OP), ("A", SATISFIED)]),
    ],
)
async def test_lists_of_names(
    ff: Driver, names: list[str], mode: str, minimum: int, sent: list[tuple[str, str]]
) -> None:
    wait = await suspended(ff, list_condition(names, mode, minimum))
    for name, effect in sent:
        assert await wait.vector() == held("waiting_for_signal")
        assert await wait.signal(name) == effect
    assert await wait.vector() == RESUMED


@pytest.mark.parametrize("condition", [operator_only(), timeout_only()])
async def test_no_signal_ends_a_wait_for_an_operator_or_for_time(ff: Driver, condition: Any) -> None:
    wait = await suspended(ff, condition, timeout_ms=1_000)
    assert await wait.signal("anything") == NO_OP
    assert await wait.vector() == held("waiting_for_signal")


async def test_a_satisfied_wait_closes_everything(ff: Driver) -> None:
    wait = await suspended(ff, timeout_ms=60_000)
    ff.clock.advance(5)
    command = wait.delivery()
    assert await accepted(ff, command) == SATISFIED
    record = await wait.record()
    assert (record.close_reason, record.closed_at, record.satisfied_at) == ("resumed", ff.now, ff.now)
    assert record.last_signal_at == ff.now
    stored = await stored_waitpoint(ff, wait.execution_id, wait.waitpoint.waitpoint_id)
    assert (stored.state, stored.close_reason, stored.closed_at) == ("closed", "resumed", ff.now)
    assert (stored.signal_count, stored.matched_signal_count, stored.last_signal_at) == (1, 1, ff.now)
    run = await ff.show(wait.execution_id)
    assert (run.suspension_timeout_at, run.signal_count) == (0, 1)


async def test_a_resumed_attempt_goes_on_as_itself(ff: Driver) -> None:
    wait = await suspended(ff)
    await wait.signal()
    task = await ff.claim_one()
    assert (task.attempt_type, task.attempt_index, task.attempt_id) == ("resumed", 0, wait.task.attempt_id)
    assert task.fence.lease_epoch == wait.task.fence.lease_epoch + 1
    assert task.resume is not None
    assert (task.resume.suspension_id, task.resume.reason) == (wait.answer.suspension_id, "signal")
    await ff.complete(task)


async def test_what_did_not_count_is_recorded_all_the_same(ff: Driver) -> None:
    wait = await suspended(ff)
    ff.clock.advance(3)
    command = wait.delivery(
        "other",
        payload=b"p",
        payload_encoding="raw",
        signal_category="cat",
        source_type="human",
        source_identity="alice",
        correlation_id="c-1",
        idempotency_key="i-1",
        created_at=77,
    )
    assert await accepted(ff, command) == NO_OP
    (stored,) = await stored_signals(ff)
    assert (stored.signal_id, stored.signal_name, stored.waitpoint_id) == (
        command.signal_id,
        "other",
        wait.waitpoint.waitpoint_id,
    )
    assert (stored.payload, stored.payload_encoding, stored.signal_category) == (b"p", "raw", "cat")
    assert (stored.source_type, stored.source_identity, stored.correlation_id) == ("human", "alice", "c-1")
    assert (stored.idempotency_key, stored.target_scope) == ("i-1", "waitpoint")
    assert (stored.created_at, stored.accepted_at, stored.observed_effect) == (77, ff.now, NO_OP)
    waitpoint = await stored_waitpoint(ff, wait.execution_id, wait.waitpoint.waitpoint_id)
    assert (waitpoint.signal_count, waitpoint.matched_signal_count) == (1, 0)


async def test_the_history_tells_of_signals_and_never_of_payloads(ff: Driver) -> None:
    wait = await suspended(ff)
    noise = wait.delivery("other", payload=b"confidential", actor="bob")
    await ff.store.apply(noise)
    await wait.signal()
    assert await ff.events(wait.execution_id) == [
        "created",
        "claimed",
        "suspended",
        "signal",
        "signal",
        "resumed",
    ]
    event = (await ff.history(wait.execution_id))[3]
    assert {noise.signal_id, noise.waitpoint_id, NO_OP} <= {value for _, value in event.details}
    assert (event.actor, event.from_state, event.to_state) == ("bob", "suspended", "suspended")
    assert "confidential" not in repr(event)
    last = (await ff.history(wait.execution_id))[-1]
    assert (last.event, last.from_state, last.to_state) == ("resumed", "suspended", "waiting")


async def test_the_history_tells_where_a_signal_came_from(ff: Driver) -> None:
    wait = await suspended(ff)
    await wait.signal("other", source_identity="alice")
    event = (await ff.history(wait.execution_id))[-1]
    assert "alice" in {value for _, value in event.details}
    await wait.signal(source_identity="alice")
    lines = await ff.history(wait.execution_id)
    # The history names whoever sent it, where the caller is nobody; a server knows its caller, if only as anonymous.
    assert [each.event for each in lines[-3:]] == ["signal", "signal", "resumed"]
    assert {each.actor for each in lines[-3:]} in ({"alice"}, {"anonymous"})


async def test_signals_come_back_in_the_order_of_their_slots(ff: Driver) -> None:
    wait = await suspended(ff, list_condition(("a", "b"), "all"))
    second = wait.delivery("b", payload=b"2", correlation_id="c", source_type="s", source_identity="i")
    await accepted(ff, second)
    await wait.signal("noise")
    accepted_at = ff.now
    ff.clock.advance(9)
    await wait.signal("a", payload=b"1", signal_category="x", payload_encoding="text")
    task = await ff.claim_one()
    one, two = task.resume_signals
    assert (one.signal_name, one.payload, one.signal_category, one.payload_encoding) == (
        "a",
        b"1",
        "x",
        "text",
    )
    assert one.accepted_at == ff.now
    assert (two.signal_id, two.signal_name, two.payload) == (second.signal_id, "b", b"2")
    assert (two.correlation_id, two.source_type, two.source_identity) == ("c", "s", "i")
    assert two.accepted_at == accepted_at
    assert await ff.store.read(ObserveSignals(execution_id=wait.execution_id)) == task.resume_signals


async def test_signals_of_an_earlier_suspension_are_gone_after_the_next(ff: Driver) -> None:
    first = await suspended(ff)
    await first.signal()
    second = await suspend(ff, await ff.claim_one())
    assert await ff.store.read(ObserveSignals(execution_id=first.execution_id)) == ()
    await second.resume()
    assert (await ff.claim_one()).resume_signals == ()


async def test_an_execution_that_never_waited_has_no_signals(ff: Driver) -> None:
    task = await ff.running()
    assert (task.resume, task.resume_signals) == (None, ())
    assert await ff.store.read(ObserveSignals(execution_id=task.execution_id)) == ()


async def test_a_retry_sees_no_signals_of_the_attempt_before(ff: Driver) -> None:
    wait = await suspended(ff, create={"policy": {"retry_policy": {"max_retries": 1}}})
    await wait.signal()
    await ff.fail(await ff.claim_one(), retry_after_ms=0)
    task = await ff.claim_one()
    assert (task.attempt_type, task.resume, task.resume_signals) == ("retry", None, ())
    assert await ff.store.read(ObserveSignals(execution_id=wait.execution_id)) == ()


@pytest.mark.parametrize("payload", [b"", bytes(range(256)), b"\xff\x00\xfe", os.urandom(MAX_SIGNAL_BYTES)])
async def test_payloads_are_bytes(ff: Driver, payload: bytes) -> None:
    wait = await suspended(ff)
    await wait.signal(payload=payload)
    assert (await ff.claim_one()).resume_signals[0].payload == payload


async def test_payloads_have_a_limit(ff: Driver) -> None:
    wait = await suspended(ff)
    command = wait.delivery(payload=b"x" * (MAX_SIGNAL_BYTES + 1))
    assert (await refused(ff, command, "payload_too_large")).field == "payload"
    assert MAX_SIGNAL_BYTES == 65_536


@pytest.mark.parametrize("name", ["__operator_only__", "__timeout_only__", "", "n" * 257, "a\nb"])
async def test_some_names_are_no_signals(ff: Driver, name: str) -> None:
    wait = await suspended(ff, operator_only())
    assert (await refused(ff, wait.delivery(name), "invalid_input")).field == "signal_name"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"signal_id": "x"}, "signal_id"),
        ({"signal_category": "c" * 257}, "signal_category"),
        ({"source_identity": "c" * 257}, "source_identity"),
        ({"idempotency_key": "c" * 257}, "idempotency_key"),
        ({"dedup_ttl_ms": -1}, "dedup_ttl_ms"),
        ({"resume_delay_ms": 2**53}, "resume_delay_ms"),
        ({"signal_maxlen": 0}, "signal_maxlen"),
        ({"max_signals_per_execution": -1}, "max_signals_per_execution"),
        ({"created_at": 2**53}, "created_at"),
    ],
)
async def test_every_field_is_checked(ff: Driver, fields: dict[str, Any], field: str) -> None:
    wait = await suspended(ff)
    assert (await refused(ff, wait.delivery(**fields), "invalid_input")).field == field


async def test_a_key_makes_a_repeat_harmless(ff: Driver) -> None:
    wait = await suspended(ff, list_condition(("a", "a"), "all"))
    first = wait.delivery("a", idempotency_key="k")
    assert await accepted(ff, first) == APPENDED
    before = await ff.store.dump()
    repeat = wait.delivery("a", idempotency_key="k")
    assert await ff.store.apply(repeat) == SignalDuplicate(existing_signal_id=first.signal_id)
    assert await ff.store.dump() == before
    assert await wait.signal("a", idempotency_key="other") == SATISFIED


async def test_without_a_key_a_repeat_is_a_second_signal(ff: Driver) -> None:
    wait = await suspended(ff, list_condition(("a", "a"), "all"))
    assert [await wait.signal("a"), await wait.signal("a")] == [APPENDED, SATISFIED]


async def test_a_signal_that_did_nothing_uses_its_key_up(ff: Driver) -> None:
    wait = await suspended(ff)
    first = wait.delivery("noise", idempotency_key="k")
    await accepted(ff, first)
    repeat = wait.delivery("go", idempotency_key="k")
    assert await ff.store.apply(repeat) == SignalDuplicate(existing_signal_id=first.signal_id)
    assert await wait.vector() == held("waiting_for_signal")


async def test_a_key_holds_from_the_buffer_into_the_wait(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task)
    first = delivery(task.execution_id, opened, "noise", idempotency_key="k")
    await accepted(ff, first)
    wait = await suspend(ff, task, waitpoints=pending(opened))
    repeat = wait.delivery("go", idempotency_key="k")
    assert await ff.store.apply(repeat) == SignalDuplicate(existing_signal_id=first.signal_id)


async def test_keys_belong_to_one_waitpoint(ff: Driver) -> None:
    wait = await suspended(ff, tree(all_of(by_name("a", "go"), by_name("b", "go"))))
    assert await wait.signal("go", "a", idempotency_key="k") == APPENDED
    assert await wait.signal("go", "b", idempotency_key="k") == SATISFIED


@pytest.mark.parametrize(("given", "life"), [({}, 86_400_000), ({"dedup_ttl_ms": 50}, 50)])
async def test_keys_are_forgotten_in_time(ff: Driver, given: dict[str, Any], life: int) -> None:
    wait = await suspended(ff)
    await wait.signal("noise", idempotency_key="k", **given)
    ff.clock.advance(life - 1)
    assert isinstance(await ff.store.apply(wait.delivery("go", idempotency_key="k")), SignalDuplicate)
    ff.clock.advance(2)
    assert await wait.signal("go", idempotency_key="k") == SATISFIED


async def test_a_key_that_lives_for_nothing_is_none(ff: Driver) -> None:
    wait = await suspended(ff)
    assert await wait.signal("noise", idempotency_key="k", dedup_ttl_ms=0) == NO_OP
    assert await wait.signal("go", idempotency_key="k", dedup_ttl_ms=0) == SATISFIED


async def test_signals_are_counted_per_execution(ff: Driver) -> None:
    wait = await suspended(ff, create={"policy": {"max_signals_per_execution": 2}})
    ahead = wait.delivery("noise", idempotency_key="k")
    await accepted(ff, ahead)
    await wait.signal("noise")
    await refused(ff, wait.delivery("go"), "signal_limit_exceeded")
    await refused(ff, wait.delivery("noise", idempotency_key="k"), "signal_limit_exceeded")
    await refused(ff, wait.delivery("go", max_signals_per_execution=1), "signal_limit_exceeded")
    assert await wait.signal("noise", max_signals_per_execution=3) == NO_OP
    assert await wait.signal("go", max_signals_per_execution=0) == SATISFIED


async def test_buffered_signals_count_towards_the_limit(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running(policy={"max_signals_per_execution": 1})
    opened = await open_pending(ff, task)
    assert await accepted(ff, delivery(task.execution_id, opened)) == BUFFERED
    await refused(ff, delivery(task.execution_id, opened), "signal_limit_exceeded")


async def test_only_the_newest_signals_are_kept(ff: Driver) -> None:
    wait = await suspended(ff, list_condition(("a", "b"), "all"))
    await wait.signal("a", payload=b"old")
    await wait.signal("noise", signal_maxlen=2)
    await wait.signal("b", payload=b"new", signal_maxlen=2)
    assert [signal.signal_name for signal in await stored_signals(ff)] == ["noise", "b"]
    assert (await ff.show(wait.execution_id)).signal_count == 3
    assert [signal.payload for signal in (await ff.claim_one()).resume_signals] == [b"new"]


async def test_after_the_wait_a_signal_has_no_target(ff: Driver) -> None:
    wait = await suspended(ff)
    await wait.signal(idempotency_key="k")
    await refused(ff, wait.delivery(), "target_not_signalable")
    await refused(ff, wait.delivery(idempotency_key="k"), "target_not_signalable")
    task = await ff.claim_one()
    await refused(ff, wait.delivery(), "target_not_signalable")
    await suspend(ff, task)
    await refused(ff, wait.delivery(), "waitpoint_closed")


async def test_a_cancelled_wait_takes_no_signals(ff: Driver) -> None:
    wait = await suspended(ff, tree(all_of(by_name("a", "x"), by_name("b", "x"))))
    await ff.store.apply(Cancel(execution_id=wait.execution_id, source="operator_override", reason="no"))
    record = await wait.record()
    assert (record.close_reason, record.closed_at) == ("cancelled", ff.now)
    for key in "ab":
        await refused(ff, wait.delivery("x", key), "target_not_signalable")
        stored = await stored_waitpoint(ff, wait.execution_id, wait.on(key).waitpoint_id)
        assert (stored.state, stored.close_reason) == ("closed", "cancelled")


async def test_a_pending_waitpoint_buffers_whatever_the_execution_does(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task)
    send = [delivery(task.execution_id, opened, f"s{n}") for n in range(4)]
    assert await accepted(ff, send[0]) == BUFFERED
    wait = await suspend(ff, task)
    assert await accepted(ff, send[1]) == BUFFERED
    await wait.signal()
    assert await accepted(ff, send[2]) == BUFFERED
    again = await ff.claim_one()
    assert await accepted(ff, delivery(task.execution_id, opened, "s4", idempotency_key="k")) == BUFFERED
    repeat = delivery(task.execution_id, opened, "s4", idempotency_key="k")
    assert isinstance(await ff.store.apply(repeat), SignalDuplicate)
    stored = await stored_waitpoint(ff, task.execution_id, opened.waitpoint_id)
    assert (stored.state, stored.signal_count) == ("pending", 4)
    await ff.complete(again)
    await refused(ff, send[3], "target_not_signalable")


async def test_an_aged_waitpoint_buffers_no_more(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    opened = await open_pending(ff, task, expires_in_ms=1_000)
    ff.clock.advance(999)
    assert await accepted(ff, delivery(task.execution_id, opened)) == BUFFERED
    ff.clock.advance(1)
    await refused(ff, delivery(task.execution_id, opened), "waitpoint_closed")
