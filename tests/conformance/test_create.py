"""Creating executions: what is accepted, what is refused, and what counts as a repeat."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowfabric.model import limits
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.create import Created, CreateExecution, Duplicate
from flowfabric.model.operations.read import Describe, GetPayload
from flowfabric.model.operations.timer import Purge
from flowfabric.model.state import Public
from support import scenes
from support.driver import Driver, new_uuid
from support.expect import refused, refuses, untouched

UUID = "f47ac10b-58cc-4372-a567-0e02b2c3d479"


def create(ff: Driver, **fields: Any) -> CreateExecution:
    return CreateExecution(**{"execution_id": ff.new_id(), "execution_kind": "job"} | fields)


def policy(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


async def test_new_execution_waits_with_every_field_as_sent(ff: Driver) -> None:
    command = create(
        ff,
        lane_id="gpu lane",
        namespace="team",
        execution_kind="render",
        creator_identity="ann",
        payload_encoding="json",
        priority=7,
        tags=(("area", "x"), ("team.name", "y")),
        fairness_key="ann's",
    )
    assert await ff.store.apply(command) == Created(command.execution_id, Public.WAITING)
    run = await ff.show(command.execution_id)
    for field in (
        "execution_id",
        "lane_id",
        "namespace",
        "execution_kind",
        "creator_identity",
        "payload_encoding",
        "priority",
        "tags",
        "fairness_key",
    ):
        assert getattr(run, field) == getattr(command, field), field
    assert run.execution_id.startswith(f"{{fp:{run.partition}}}:")
    assert run.created_at == run.last_transition_at == run.last_mutation_at == ff.now
    counters = (run.total_attempt_count, run.retry_count, run.replay_count, run.lease_reclaim_count)
    assert counters == (0, 0, 0, 0)
    assert run.current_lease_epoch == 0
    assert (run.started_at, run.completed_at, run.delay_until, run.execution_deadline_at) == (0, 0, 0, 0)


async def test_history_begins_with_the_creation_and_its_actor(ff: Driver) -> None:
    command = create(ff, actor="token-a")
    await ff.store.apply(command)
    (event,) = await ff.history(command.execution_id)
    assert (event.seq, event.at, event.event, event.actor) == (1, ff.now, "created", "token-a")
    assert (event.from_state, event.to_state) == ("", "waiting")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x00\xff\xfe not text \xc3\x28", id="binary"),
        pytest.param(b"x" * limits.MAX_PAYLOAD_BYTES, id="largest"),
    ],
)
async def test_input_and_policy_come_back_byte_for_byte(ff: Driver, data: bytes) -> None:
    text = b'{ "unknown": {"kept": [1, 2]},\n "max_replay_count": 2 }'
    command = create(ff, input_payload=data, policy=text)
    await ff.store.apply(command)
    payload = await ff.store.read(GetPayload(execution_id=command.execution_id))
    assert payload.input == data
    assert payload.policy_json == text


@pytest.mark.parametrize(
    ("spelling", "reason"),
    [
        (UUID, "MissingTag"),
        ("", "MissingTag"),
        ("{b:1}:" + UUID, "MissingTag"),
        ("{fp:1}" + UUID, "MissingTag"),
        (" {fp:1}:" + UUID, "MissingTag"),
        ("{fp:}:" + UUID, "InvalidPartitionIndex"),
        ("{fp:01}:" + UUID, "InvalidPartitionIndex"),
        ("{fp:+1}:" + UUID, "InvalidPartitionIndex"),
        ("{fp:-1}:" + UUID, "InvalidPartitionIndex"),
        ("{fp:65536}:" + UUID, "InvalidPartitionIndex"),
        ("{fp:\u0661}:" + UUID, "InvalidPartitionIndex"),
        ("{fp:1}:" + UUID.upper(), "InvalidUuid"),
        ("{fp:1}:" + UUID.replace("-", ""), "InvalidUuid"),
        ("{fp:1}:urn:uuid:" + UUID, "InvalidUuid"),
        ("{fp:1}:{" + UUID + "}", "InvalidUuid"),
        ("{fp:1}:" + UUID + "\n", "InvalidUuid"),
        ("{fp:1}:" + UUID[:-1], "InvalidUuid"),
        ("{fp:1}:", "InvalidUuid"),
    ],
)
async def test_only_the_canonical_spelling_of_an_id_is_accepted(
    ff: Driver, spelling: str, reason: str
) -> None:
    await refuses(ff, create(ff, execution_id=spelling), "invalid_input", reason, field="execution_id")


async def test_partition_must_exist(ff: Driver) -> None:
    count = ff.store.partitions.flow
    await ff.create(execution_id=f"{{fp:{count - 1}}}:{UUID}")
    await refuses(
        ff, create(ff, execution_id=f"{{fp:{count}}}:{UUID}"), "invalid_input", field="execution_id"
    )


NAMES = [
    ("", "invalid_input"),
    ("x" * 257, "invalid_input"),
    ("a\nb", "invalid_input"),
    ("\x7f", "invalid_input"),
]


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        *(("namespace", *row) for row in NAMES),
        *(("execution_kind", *row) for row in NAMES),
        *(("creator_identity", *row) for row in NAMES[1:]),
        ("lane_id", "", "invalid_input"),
        ("lane_id", "x" * 65, "invalid_input"),
        ("lane_id", "\u00e9", "invalid_input"),
        ("lane_id", "a\tb", "invalid_input"),
        ("lane_id", "a\x7f", "invalid_input"),
        ("idempotency_key", "k" * 257, "invalid_input"),
        ("payload_encoding", "e" * 257, "invalid_input"),
        ("fairness_key", "f" * 257, "invalid_input"),
        ("namespace", "\u00e9" * 129, "invalid_input"),
        ("namespace", "\ud800", "invalid_input"),
        ("priority", 2**53, "invalid_input"),
        ("priority", -(2**53), "invalid_input"),
        ("priority", 1.5, "invalid_input"),
        ("priority", True, "invalid_input"),
        ("priority", "5", "invalid_input"),
        ("delay_until", -1, "invalid_input"),
        ("delay_until", 2**53, "invalid_input"),
        ("delay_ms", -1, "invalid_input"),
        ("delay_ms", 2**53, "invalid_input"),
        ("execution_deadline_at", -1, "invalid_input"),
        ("execution_deadline_at", 2**53, "invalid_input"),
        ("flow_id", "nope", "invalid_input"),
        ("budget_ids", ("nope",), "invalid_input"),
        ("quota_ids", (UUID.upper(),), "invalid_input"),
    ],
)
async def test_bad_fields_are_refused_by_name(ff: Driver, field: str, value: Any, code: str) -> None:
    await refuses(ff, create(ff, **{field: value}), code, field=field)


@pytest.mark.parametrize(
    ("field", "limit"), [("input_payload", limits.MAX_PAYLOAD_BYTES), ("policy", limits.MAX_POLICY_BYTES)]
)
async def test_too_many_bytes_are_refused(ff: Driver, field: str, limit: int) -> None:
    await refuses(ff, create(ff, **{field: b" " * (limit + 1)}), "payload_too_large", field=field)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("lane_id", "x" * 64),
        ("lane_id", " ~!"),
        ("namespace", "\u00e9" * 128),
        ("execution_kind", "k" * 256),
        ("idempotency_key", "k" * 256),
        ("priority", 2**53 - 1),
        ("priority", -(2**53) + 1),
        ("delay_until", 2**53 - 1),
        ("execution_deadline_at", 2**53 - 1),
    ],
)
async def test_fields_at_their_limit_are_accepted(ff: Driver, field: str, value: Any) -> None:
    assert isinstance(await ff.store.apply(create(ff, **{field: value})), Created)


@pytest.mark.parametrize("key", ["", "A", "1a", "a.", ".a", "a..b", "a b", "a.B", "\u00e9", "a\n", "a" * 129])
async def test_bad_tag_keys_are_refused_at_creation(ff: Driver, key: str) -> None:
    await refuses(ff, create(ff, tags=((key, "v"),)), "invalid_tag_key")


@pytest.mark.parametrize(
    "tags",
    [
        tuple((f"t{n:03}", "") for n in range(65)),
        (("a", "x" * (limits.MAX_TAG_VALUE_BYTES + 1)),),
        (("a", "1"), ("a", "2")),
    ],
)
async def test_too_many_or_too_large_tags_are_refused(ff: Driver, tags: tuple[tuple[str, str], ...]) -> None:
    await refuses(ff, create(ff, tags=tags), "invalid_input")


async def test_sixty_four_tags_with_the_longest_keys_are_accepted(ff: Driver) -> None:
    tags = tuple((f"{n:03}".rjust(128, "a"), "v") for n in range(64))
    execution_id = await ff.create(tags=tags)
    assert (await ff.show(execution_id)).tags == tags


@pytest.mark.parametrize(
    ("given", "stored"), [(-5, 0), (0, 0), (9_000, 9_000), (9_001, 9_000), (10**12, 9_000)]
)
async def test_priority_is_clamped(ff: Driver, given: int, stored: int) -> None:
    assert (await ff.show(await ff.create(priority=given))).priority == stored


@pytest.mark.parametrize(
    ("call", "of_policy", "stored"), [(None, 40, 40), (3, 40, 3), (0, 40, 0), (None, -1, 0)]
)
async def test_policy_priority_counts_only_without_one_in_the_call(
    ff: Driver, call: int | None, of_policy: int, stored: int
) -> None:
    execution_id = await ff.create(priority=call, policy={"priority": of_policy})
    assert (await ff.show(execution_id)).priority == stored


@pytest.mark.parametrize(
    ("call", "of_policy", "delayed_by"),
    [(None, 5_000, 5_000), (7_000, 5_000, 7_000), (0, 5_000, 0), (1, None, 1), (0, None, 0), (-1, None, 0)],
)
async def test_delay(ff: Driver, call: int | None, of_policy: int | None, delayed_by: int) -> None:
    """A delay that is over makes work claimable at once; the policy's counts only when the call has none."""
    command = create(
        ff,
        delay_until=None if call is None else ff.now + call,
        policy=b"" if of_policy is None else policy(delay_until=ff.now + of_policy),
    )
    state = "delayed" if delayed_by else "waiting"
    assert await ff.store.apply(command) == Created(command.execution_id, Public(state))
    run = await ff.show(command.execution_id)
    assert run.public_state == state
    assert run.delay_until == (ff.now + delayed_by if delayed_by else 0)
    assert len(await ff.claim()) == (0 if delayed_by else 1)


@pytest.mark.parametrize("delay", [0, 1, 5_000])
async def test_delay_from_its_creation_on_goes_before_the_policys(ff: Driver, delay: int) -> None:
    execution_id = await ff.create(delay_ms=delay, policy={"delay_until": ff.now + 9_000})
    run = await ff.show(execution_id)
    assert (run.public_state, run.delay_until) == (("delayed", ff.now + delay) if delay else ("waiting", 0))


async def test_endless_delay_ends_with_what_can_be_counted(ff: Driver) -> None:
    run = await ff.show(await ff.create(delay_ms=2**53 - 1))
    assert run.delay_until == 2**53 - 1


async def test_two_delays_are_refused(ff: Driver) -> None:
    with refused("invalid_input", field="delay_ms"):
        await ff.create(delay_ms=1, delay_until=ff.now + 1)


@pytest.mark.parametrize(
    ("call", "of_policy", "after"), [(9_000, None, 9_000), (None, 4_000, 4_000), (9_000, 4_000, 9_000)]
)
async def test_deadline_is_that_of_the_call_else_counted_from_creation(
    ff: Driver, call: int | None, of_policy: int | None, after: int
) -> None:
    execution_id = await ff.create(
        execution_deadline_at=None if call is None else ff.now + call,
        policy={"timeout_policy": {"execution_deadline_ms": of_policy}} if of_policy else {},
    )
    assert (await ff.show(execution_id)).execution_deadline_at == ff.now + after


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "malformed"),
        (b"nope", "malformed"),
        (b"{'a': 1}", "malformed"),
        (b'{"a": "\xff"}', "malformed"),
        (b'{"a": NaN}', "malformed"),
        (b"{} {}", "malformed"),
        (b"[]", "not_object"),
        (b"null", "not_object"),
        (b"true", "not_object"),
        (b"7", "not_object"),
        (b'"{}"', "not_object"),
        (b'{"routing_requirements": null}', "routing_requirements:not_object"),
        (b'{"routing_requirements": []}', "routing_requirements:not_object"),
        (b'{"routing_requirements": "gpu"}', "routing_requirements:not_object"),
    ],
)
async def test_policy_must_be_a_json_object(ff: Driver, text: bytes, reason: str) -> None:
    await refuses(ff, create(ff, policy=text), "invalid_policy_json", reason)


@pytest.mark.parametrize(
    ("capabilities", "reason"),
    [
        ({"gpu": True}, "not_array"),
        ({}, "not_array"),
        ("gpu", "not_array"),
        (None, "not_array"),
        ([1], "non_string_token"),
        (["gpu", None], "non_string_token"),
        ([""], "empty_token"),
        (["a,b"], "comma_in_token"),
        (["a b"], "control_or_whitespace"),
        (["a\t"], "control_or_whitespace"),
        (["\x7f"], "control_or_whitespace"),
        ([f"c{n}" for n in range(257)], "too_many_tokens"),
        (["x" * 4_097], "too_many_bytes"),
        (["x" * 2_048, "y" * 2_048], "too_many_bytes"),
    ],
)
async def test_bad_capability_lists_are_refused(ff: Driver, capabilities: Any, reason: str) -> None:
    text = policy(routing_requirements={"required_capabilities": capabilities})
    await refuses(ff, create(ff, policy=text), "invalid_capabilities", f"required:{reason}")


@pytest.mark.parametrize(
    "capabilities",
    [[], [f"c{n:03}" for n in range(256)], ["x" * 2_047, "y" * 2_048], ["caf\u00e9", "GPU", "gpu"]],
)
async def test_capabilities_are_kept_sorted_up_to_both_limits(ff: Driver, capabilities: list[str]) -> None:
    wanted = list(reversed(capabilities))
    execution_id = await ff.create(policy={"routing_requirements": {"required_capabilities": wanted}})
    assert (await ff.show(execution_id)).required_capabilities == tuple(sorted(capabilities))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"flow_id": UUID}, "flow_not_found"),
        ({"budget_ids": (UUID,)}, "budget_not_found"),
        ({"quota_ids": (UUID,)}, "quota_policy_not_found"),
        ({"policy": policy(budget_ids=[UUID])}, "budget_not_found"),
    ],
)
async def test_what_does_not_exist_cannot_be_joined(ff: Driver, fields: dict[str, Any], code: str) -> None:
    await refuses(ff, create(ff, **fields), code)


async def test_same_id_is_a_duplicate_whatever_the_arguments(ff: Driver) -> None:
    execution_id = await ff.create(priority=1, input_payload=b"first")
    again = create(ff, execution_id=execution_id, execution_kind="other", priority=9, input_payload=b"second")
    async with untouched(ff):
        assert await ff.store.apply(again) == Duplicate(execution_id, "waiting")


@pytest.mark.parametrize("key", ["", "k"])
async def test_an_id_of_another_namespace_is_taken(ff: Driver, key: str) -> None:
    theirs = await ff.create(namespace="theirs", idempotency_key=key)
    command = create(ff, execution_id=theirs, namespace="ours", idempotency_key=key)
    await refuses(ff, command, "execution_id_taken", field="execution_id")
    assert (await ff.show(theirs)).namespace == "theirs"
    fresh = create(ff, namespace="ours", idempotency_key=key)  # the refusal has used up no key
    assert await ff.store.apply(fresh) == Created(fresh.execution_id, Public.WAITING)


@pytest.mark.parametrize("name", ["active", "suspended", "completed", "cancelled"])
async def test_duplicate_names_the_present_state(ff: Driver, name: str) -> None:
    scene = await scenes.STAGES[name](ff, idempotency_key="k")
    for again in (create(ff, execution_id=scene.execution_id), create(ff, idempotency_key="k")):
        async with untouched(ff):
            assert await ff.store.apply(again) == Duplicate(scene.execution_id, name)


async def test_idempotency_key_is_shared_by_a_namespace_across_lanes_and_partitions(ff: Driver) -> None:
    first = await ff.create(idempotency_key="k", execution_id=f"{{fp:1}}:{new_uuid()}")
    again = create(ff, idempotency_key="k", lane_id="other", execution_id=f"{{fp:2}}:{new_uuid()}")
    assert await ff.store.apply(again) == Duplicate(first, "waiting")
    with refused("execution_not_found"):
        await ff.store.read(Describe(execution_id=again.execution_id))


async def test_idempotency_key_of_another_namespace_is_another_key(ff: Driver) -> None:
    first = await ff.create(idempotency_key="k", namespace="a")
    second = await ff.create(idempotency_key="k", namespace="b")
    third = await ff.create(idempotency_key="k2", namespace="a")
    assert len({first, second, third}) == 3


async def test_empty_idempotency_key_is_none(ff: Driver) -> None:
    assert await ff.create(idempotency_key="") != await ff.create(idempotency_key="")


@pytest.mark.parametrize("window", [None, 5_000, 3 * limits.DAY_MS])
async def test_idempotency_window_is_a_day_or_what_the_policy_says(ff: Driver, window: int | None) -> None:
    text = policy(dedup_window_ms=window) if window else b""
    first = await ff.create(idempotency_key="k", policy=json.loads(text) if text else None)
    ff.clock.advance((window or limits.DAY_MS) - 1)
    assert await ff.store.apply(create(ff, idempotency_key="k")) == Duplicate(first, "waiting")
    ff.clock.advance(2)
    later = create(ff, idempotency_key="k")
    assert await ff.store.apply(later) == Created(later.execution_id, Public.WAITING)
    assert await ff.store.apply(create(ff, idempotency_key="k")) == Duplicate(later.execution_id, "waiting")


async def test_key_outlives_a_purged_execution(ff: Driver) -> None:
    task = await ff.running(idempotency_key="k", policy={"stream_policy": {"retention_ttl_ms": 1_000}})
    await ff.complete(task)
    ff.clock.advance(1_000)
    await ff.store.apply(Purge(execution_id=task.execution_id))
    assert await ff.store.apply(create(ff, idempotency_key="k")) == Duplicate(task.execution_id, "")


async def test_key_is_looked_at_before_the_id(ff: Driver) -> None:
    by_key, by_id = await ff.create(idempotency_key="k"), await ff.create()
    both = create(ff, idempotency_key="k", execution_id=by_id)
    assert await ff.store.apply(both) == Duplicate(by_key, "waiting")


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"routing_requirements": {"required_capabilities": [""]}}'])
async def test_duplicate_is_found_before_the_policy_is_judged(ff: Driver, text: bytes) -> None:
    first = await ff.create(idempotency_key="k")
    for again in (create(ff, execution_id=first, policy=text), create(ff, idempotency_key="k", policy=text)):
        assert await ff.store.apply(again) == Duplicate(first, "waiting")


async def test_refused_creation_does_not_use_up_its_key(ff: Driver) -> None:
    await refuses(ff, create(ff, idempotency_key="k", policy=b"{"), "invalid_policy_json", "malformed")
    assert isinstance(await ff.store.apply(create(ff, idempotency_key="k")), Created)


async def test_one_bad_item_leaves_the_others_of_a_batch_alone(ff: Driver) -> None:
    good, last = create(ff, idempotency_key="k"), create(ff)
    batch = [
        good,
        create(ff, execution_id="nope"),
        create(ff, policy=b"{"),
        create(ff, idempotency_key="k"),
        create(ff, flow_id=UUID),
        last,
        last,
    ]
    first, bad_id, bad_policy, repeated, no_flow, second, twice = await ff.store.apply_many(batch)
    assert first == Created(good.execution_id, Public.WAITING)
    assert repeated == Duplicate(good.execution_id, "waiting")
    assert second == Created(last.execution_id, Public.WAITING)
    assert twice == Duplicate(last.execution_id, "waiting")
    refusals = (bad_id, bad_policy, no_flow)
    assert all(isinstance(refusal, FlowFabricError) for refusal in refusals)
    codes = [refusal.code for refusal in refusals if isinstance(refusal, FlowFabricError)]
    assert codes == ["invalid_input", "invalid_policy_json", "flow_not_found"]
    assert {task.execution_id for task in await ff.claim(max_tasks=10)} == {
        good.execution_id,
        last.execution_id,
    }
