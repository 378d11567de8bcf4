"""The live feed of one execution says which of its frames count no more."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.operate import Replay
from flowfabric.model.operations.step import PutStep
from support.clock import ManualClock
from support.driver import Driver
from support.frames import append
from support.server import Api
from support.sse import Message, listen
from support.waiting import let_go, suspend


def driver(api: Api) -> Driver:
    return Driver(api.store, ManualClock())


def path(execution_id: str) -> str:
    return f"/v1/executions/{quote(execution_id)}/events"


async def put(ff: Driver, task: Task, name: str) -> None:
    await ff.store.apply(
        PutStep(execution_id=task.execution_id, fence=task.fence, step_name=name, result=b"1")
    )


async def resumed(ff: Driver, task: Task) -> Task:
    await (await suspend(ff, task)).signal()
    return await ff.claim_one()


def screen(messages: list[Message]) -> list[str]:
    """Show what a reader shows that does as the guide says."""
    shown: list[Message] = []
    for message in messages:
        data = message.data
        if message.event == "frame":
            shown.append(message)
        elif message.event == "superseded":
            shown = [each for each in shown if not covers(data, each.data)]
    return [each.data["payload"] for each in shown]


def covers(told: dict[str, object], frame: dict[str, object]) -> bool:
    if frame.get("step", "") in told["kept_steps"]:  # type: ignore[operator]
        return False
    if told.get("replayed"):
        return bool(frame["attempt_index"] <= told["attempt_index"])  # type: ignore[operator]
    first, id_, last = (
        tuple(map(int, str(text).split("-"))) for text in (told["from"], frame["id"], told["to"])
    )
    return frame["attempt_index"] == told["attempt_index"] and first <= id_ <= last


async def test_a_wait_supersedes_what_was_emitted_outside_stored_steps(api: Api) -> None:
    ff = driver(api)
    task = await ff.running()
    ids = [one.entry_id for one in await append(ff, task, b"intro ")]
    ids += [one.entry_id for one in await append(ff, task, b"draft ", step="write")]
    await put(ff, task, "write")
    ids += [one.entry_id for one in await append(ff, task, b"half ", step="polish")]
    async with listen(api, path(task.execution_id)) as feed:
        before = await feed.take(6)
        task = await resumed(ff, task)
        live = await feed.take(4)
        assert [message.event for message in live] == ["state", "state", "superseded", "state"]
        assert live[2].data == {
            "execution_id": task.execution_id,
            "attempt_index": 0,
            "lease_epoch": 1,
            "from": ids[0],
            "to": ids[-1],
            "by_epoch": 2,
            "kept_steps": ["write"],
        }
        assert screen(before + live) == ["draft "]
        await append(ff, task, b"intro ")
        await append(ff, task, b"whole ", step="polish")
        await put(ff, task, "polish")
        await ff.complete(task)
        story = before + live + await feed.rest()
    assert screen(story) == ["draft ", "intro ", "whole "]
    frames = [message.data for message in story if message.event == "frame"]
    assert [(frame["lease_epoch"], frame.get("step")) for frame in frames] == [
        (1, None),
        (1, "write"),
        (1, "polish"),
        (2, None),
        (2, "polish"),
    ]
    await check_resuming(api, task.execution_id, story)


async def check_resuming(api: Api, execution_id: str, story: list[Message]) -> None:
    """A late reader gets the same, and one that goes on after any message gets the rest."""
    assert len({message.id for message in story}) == len(story)
    async with listen(api, path(execution_id)) as feed:
        assert await feed.rest() == story
    for place, message in enumerate(story[:-1]):
        async with listen(api, path(execution_id), message.id) as feed:
            assert await feed.rest() == story[place + 1 :], message


async def test_a_crash_keeps_what_stored_steps_have_emitted(api: Api) -> None:
    ff = driver(api)
    task = await ff.running()
    await append(ff, task, b"draft ", step="write")
    await put(ff, task, "write")
    await append(ff, task, b"lost ")
    await let_go(ff, task)
    task = await ff.claim_one()
    await append(ff, task, b"found ")
    task = await resumed(ff, task)
    task = await resumed(ff, task)
    await append(ff, task, b"found again")
    await ff.complete(task)
    async with listen(api, path(task.execution_id)) as feed:
        story = await feed.rest()
    told = [message.data for message in story if message.event == "superseded"]
    assert [(each["attempt_index"], each["lease_epoch"], each["by_epoch"]) for each in told] == [
        (0, 1, 2),
        (1, 2, 3),
    ]
    assert screen(story) == ["draft ", "found again"]
    await check_resuming(api, task.execution_id, story)


@pytest.mark.parametrize(("keep", "shown"), [(False, ["anew"]), (True, ["draft", "anew"])])
async def test_a_replay_supersedes_every_attempt_before_it(api: Api, keep: bool, shown: list[str]) -> None:
    ff = driver(api)
    task = await ff.running()
    await append(ff, task, b"draft", step="write")
    await put(ff, task, "write")
    await let_go(ff, task)
    task = await ff.claim_one()
    await append(ff, task, b"end")
    await ff.complete(task)
    await ff.store.apply(Replay(execution_id=task.execution_id, keep_steps=keep))
    task = await ff.claim_one()
    await append(ff, task, b"anew")
    await ff.complete(task)
    async with listen(api, path(task.execution_id)) as feed:
        story = await feed.rest()
    assert screen(story) == shown
    await check_resuming(api, task.execution_id, story)


async def test_frames_of_a_lease_come_after_its_beginning(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    ff = driver(api)
    now = ff.store.now()
    monkeypatch.setattr(type(ff.store), "now", lambda _: now)  # everything happens in one millisecond
    task = await ff.running()
    await append(ff, task, b"1")
    task = await resumed(ff, task)
    await append(ff, task, b"2")
    await ff.complete(task)
    async with listen(api, path(task.execution_id)) as feed:
        story = await feed.rest()
    assert [message.data.get("to", message.event) for message in story if message.event == "state"] == [
        "waiting",
        "active",
        "suspended",
        "waiting",
        "active",
        "completed",
    ]
    assert [message.event for message in story] == [
        "state",
        "attempt",
        "state",
        "frame",
        "state",
        "state",
        "superseded",
        "state",
        "frame",
        "state",
        "end",
    ]


async def test_the_step_of_a_frame_travels_over_http(api: Api) -> None:
    ff = driver(api)
    task = await ff.running()
    run = f"/v1/executions/{quote(task.execution_id)}"
    fence = {"lease_id": task.fence.lease_id, "lease_epoch": 1, "attempt_id": task.attempt_id}
    body = {"fence": fence, "frames": [{"frame_type": "token", "payload": "x", "step": "write"}]}
    assert (await api.post(f"{run}/frames", body)).status == 200
    for tail in ("stream", "stream/tail"):
        (frame,) = (await api.get(f"{run}/attempts/0/{tail}")).json["frames"]
        assert (frame["fields"]["lease_epoch"], frame["fields"]["step"]) == ("1", "write")
    long = body | {"frames": [{"frame_type": "token", "payload": "x", "step": "s" * 257}]}
    refused = await api.post(f"{run}/frames", long)
    assert refused.status in {400, 422}
    assert "step" in refused.json["field"]
