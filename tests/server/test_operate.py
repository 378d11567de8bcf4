"""What operators do to executions and lanes, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.storage.minting import new_uuid
from support.server import Api
from support.work import NOW, act, claim, create, path

NOBODY = "{fp:7}:7c9e6679-7425-40de-944b-e07fc1f90ae7"


def cancellation(execution_id: str, **fields: Any) -> dict[str, Any]:
    return {"execution_id": execution_id, "reason": "user request", "now": NOW} | fields


async def test_cancel(api: Api) -> None:
    execution_id = await create(api)
    reply = await api.post(path(execution_id, "cancel"), cancellation(execution_id))
    assert (reply.status, reply.json) == (
        200,
        {"Cancelled": {"execution_id": execution_id, "public_state": "cancelled"}},
    )
    again = await api.post(path(execution_id, "cancel"), cancellation(execution_id))
    assert (again.status, again.json["code"], again.json["kind"]) == (409, "execution_not_active", "terminal")
    assert again.json["retryable"] is False


@pytest.mark.parametrize("field", ["execution_id", "reason", "now"])
async def test_cancel_needs_its_fields(api: Api, field: str) -> None:
    execution_id = await create(api)
    body = cancellation(execution_id)
    del body[field]
    for sent in (body, cancellation(execution_id) | {field: None}):
        reply = await api.post(path(execution_id, "cancel"), sent)
        assert (reply.status, reply.json["field"]) == (422, field)


async def test_cancel_names_what_it_means(api: Api) -> None:
    execution_id = await create(api)
    reply = await api.post(path(execution_id, "cancel"), cancellation(NOBODY))
    assert reply.status == 400
    assert reply.json["error"] == "path execution_id does not match body execution_id"
    gone = await api.post(path(NOBODY, "cancel"), cancellation(NOBODY))
    assert (gone.status, gone.json["error"]) == (404, "not found: execution")


async def test_the_holder_cancels_with_its_fence(api: Api) -> None:
    execution_id = await create(api)
    refused = await claim(api)
    loose = await api.post(path(execution_id, "cancel"), cancellation(execution_id, source="lease_holder"))
    assert (loose.status, loose.json["code"]) == (400, "fence_required")
    stale = refused["fence"] | {"lease_id": new_uuid()}
    reply = await api.post(path(execution_id, "cancel"), {"fence": stale})
    assert (reply.status, reply.json["kind"], reply.json["retryable"]) == (409, "stale_lease", False)
    for _ in range(2):  # a repeat is answered alike
        assert "Cancelled" in await act(api, refused, "cancel", reason="no")


async def test_a_classic_holder_sends_its_fence_flat(api: Api) -> None:
    execution_id = await create(api)
    task = await claim(api)
    body = cancellation(execution_id, source="lease_holder", **task["fence"])
    stale = await api.post(path(execution_id, "cancel"), body | {"lease_id": new_uuid()})
    assert (stale.status, stale.json["kind"]) == (409, "state_conflict")
    assert (await api.post(path(execution_id, "cancel"), body)).status == 200


async def test_priority(api: Api) -> None:
    execution_id = await create(api)
    reply = await api.put(path(execution_id, "priority"), {"new_priority": 99_999})
    assert reply.json == {"Changed": {"execution_id": execution_id}}
    assert (await api.get(path(execution_id))).json["priority"] == 9_000
    assert (await api.put(path(execution_id, "priority"), {})).status == 422
    await act(api, await claim(api), "complete")
    refused = await api.put(path(execution_id, "priority"), {"new_priority": 1})
    assert (refused.status, refused.json["code"]) == (409, "execution_not_eligible")


async def test_replay(api: Api) -> None:
    execution_id = await create(api, policy={"max_replay_count": 1})
    early = await api.post(path(execution_id, "replay"))
    assert (early.status, early.json["kind"]) == (409, "execution_not_terminal")
    await act(api, await claim(api), "complete")
    assert (await api.post(path(execution_id, "replay"), keep_steps="true")).status == 200
    assert (await claim(api))["attempt_type"] == "replay"
    await api.post(path(execution_id, "cancel"), cancellation(execution_id))
    spent = await api.post(path(execution_id, "replay"))
    assert (spent.status, spent.json["kind"]) == (409, "max_replays_exhausted")
    both = await api.post(path(execution_id, "replay"), keep_steps="true", from_step="a")
    assert both.status == 400


async def test_revoke(api: Api) -> None:
    execution_id = await create(api)
    nothing = await api.post(path(execution_id, "revoke-lease"))
    assert nothing.json == {"AlreadySatisfied": {"reason": "no_active_lease"}}
    fence = (await claim(api))["fence"]
    reply = await api.post(path(execution_id, "revoke-lease"))
    assert reply.json == {
        "Revoked": {"lease_id": fence["lease_id"], "lease_epoch": str(fence["lease_epoch"])}
    }
    again = await api.post(path(execution_id, "revoke-lease"))
    assert again.json == {"AlreadySatisfied": {"reason": "already_revoked"}}
    assert (await api.post(path(NOBODY, "revoke-lease"))).status == 404


async def test_resume(api: Api) -> None:
    execution_id = await create(api)
    early = await api.post(path(execution_id, "resume"))
    assert (early.status, early.json["kind"]) == (409, "execution_not_suspended")
    await act(api, await claim(api), "suspend")
    reply = await api.post(path(execution_id, "resume"), {"resume_delay_ms": 60_000})
    assert reply.json == {"Resumed": {"public_state": "delayed"}}


async def test_tags(api: Api) -> None:
    execution_id = await create(api, tags={"a": "1"})
    reply = await api.put(path(execution_id, "tags"), {"tags": {"b": "2", "c.d": "3"}})
    assert reply.json == {"Updated": {"count": 2}}
    (shown,) = (await api.get("/v1/executions", tag="c.d:3")).json["executions"]
    assert shown["tags"] == {"a": "1", "b": "2", "c.d": "3"}
    bad = await api.put(path(execution_id, "tags"), {"tags": {"Bad": "2"}})
    assert (bad.status, bad.json["kind"]) == (400, "invalid_tag_key")


async def test_pause(api: Api) -> None:
    execution_id = await create(api)
    for _ in range(2):
        assert (await api.post(path(execution_id, "pause"), {"reason": "wait"})).json == "Paused"
    vector = (await api.get(path(execution_id))).json["state_vector"]
    assert (vector["eligibility_state"], vector["blocking_reason"]) == (
        "blocked_by_operator",
        "paused_by_operator",
    )
    for _ in range(2):
        assert (await api.post(path(execution_id, "unpause"))).json == "Unpaused"
    await claim(api)
    refused = await api.post(path(execution_id, "pause"))
    assert (refused.status, refused.json["kind"]) == (409, "execution_not_eligible")


async def test_a_lane_pauses_whatever_its_name(api: Api) -> None:
    execution_id = await create(api, lane_id="a/b c")
    assert (await api.post("/v1/lanes/a%2Fb%20c/pause", {"reason": "night"})).json == "Paused"
    vector = (await api.get(path(execution_id))).json["state_vector"]
    assert (vector["eligibility_state"], vector["blocking_reason"]) == (
        "blocked_by_lane_state",
        "paused_by_policy",
    )
    lane = (await api.get("/v1/lanes")).json["lanes"][0]
    assert (lane["lane_id"], lane["paused"], lane["pause_reason"]) == ("a/b c", True, "night")
    assert (await api.post("/v1/lanes/a%2Fb%20c/unpause")).json == "Unpaused"
    assert (await claim(api, "a/b c"))["execution_id"] == execution_id
    assert (await api.post("/v1/lanes/%C3%A9/pause")).status == 400
