"""What a handler asks of whoever is to answer: stored with its waitpoints, shown wherever those are."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.operations.signal import ReadInbox
from flowfabric.model.operations.suspend import Binding
from flowfabric.model.operations.suspend_waitpoint import CreateWaitpoint, ListWaitpoints
from support import scenes
from support.driver import Driver, new_uuid
from support.expect import refuses

QUESTION = {"message": "May I delete <everything>?", "details": '{"files": 3, "größe": [1, null]}'}


async def shown(ff: Driver, execution_id: str) -> tuple[str, str]:
    (waitpoint,) = (await ff.store.read(ListWaitpoints(execution_id=execution_id))).waitpoints
    inbox = (await ff.store.read(ReadInbox())).waitpoints
    assert [each for each in inbox if each.execution_id == execution_id] == [waitpoint]
    return waitpoint.message, waitpoint.details


def pending(ff: Driver, task: Any, **fields: Any) -> CreateWaitpoint:
    given: dict[str, Any] = {"waitpoint_id": new_uuid(), "waitpoint_key": scenes.KEY, "expires_in_ms": 60_000}
    return CreateWaitpoint(execution_id=task.execution_id, fence=task.fence, **given | fields)


async def test_a_suspension_says_what_it_asks(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    await ff.store.apply(scenes.suspend(task, **QUESTION))
    assert await shown(ff, task.execution_id) == tuple(QUESTION.values())


async def test_a_suspension_need_not_say_anything(ff: Driver) -> None:
    await ff.seed()
    task = await ff.running()
    await ff.store.apply(scenes.suspend(task))
    assert await shown(ff, task.execution_id) == ("", "")


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ({}, tuple(QUESTION.values())),
        ({"message": "Now?"}, ("Now?", QUESTION["details"])),
        ({"details": "{}"}, (QUESTION["message"], "{}")),
    ],
)
async def test_a_waitpoint_made_ahead_keeps_its_question_unless_the_suspension_has_another(
    ff: Driver, later: dict[str, str], expected: tuple[str, str]
) -> None:
    await ff.seed()
    task = await ff.running()
    ahead = pending(ff, task, **QUESTION)
    await ff.store.apply(ahead)
    assert await shown(ff, task.execution_id) == tuple(QUESTION.values())
    bound = (Binding(ahead.waitpoint_id, scenes.KEY, pending=True),)
    await ff.store.apply(scenes.suspend(task, waitpoints=bound, **later))
    assert await shown(ff, task.execution_id) == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("message", "x" * 4_097),
        ("message", "\ud800"),
        ("message", "a\x1b[31m"),
        ("details", "[1]"),
        ("details", "nonsense"),
        ("details", '{"a": "' + "x" * 16_384 + '"}'),
        ("details", '{"a":' * 5_000),
    ],
)
async def test_a_question_that_cannot_be_shown_is_refused(ff: Driver, field: str, value: str) -> None:
    await ff.seed()
    task = await ff.running()
    await refuses(ff, scenes.suspend(task, **{field: value}), "invalid_input", field=field)
    await refuses(ff, pending(ff, task, **{field: value}), "invalid_input", field=field)
