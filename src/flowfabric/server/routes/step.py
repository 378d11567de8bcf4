"""Reading durable steps."""

from __future__ import annotations

import re
from typing import Final

from flowfabric.model.limits import MAX_INT, MAX_NAME_BYTES, MAX_STEP_BYTES_IN_PAGE
from flowfabric.model.operations.step import GetStep, ListedStep, ListSteps
from flowfabric.server.http.call import Response, ServerCall
from flowfabric.server.http.cursors import bad_cursor
from flowfabric.server.http.routing import serves
from flowfabric.wire import payload
from flowfabric.wire.errors import HttpError, bad_request
from flowfabric.wire.step import GET_STEP, LIST_STEPS, STEPS_PAGE, OneStep, StepPageView, StepQuery, StepRow

_CURSOR: Final = re.compile(r"([0-9]{1,16})-(.+)", re.DOTALL)


@serves(LIST_STEPS)
async def list_steps(call: ServerCall) -> Response:
    """List stored steps in the order of their calls."""
    query: StepQuery = call.query
    if not 1 <= query.limit <= STEPS_PAGE:
        raise bad_request(f"limit: must be an integer from 1 to {STEPS_PAGE}", field="limit")
    question = ListSteps(
        execution_id=call.execution_id,
        after=_after(query.cursor),
        limit=query.limit,
        max_bytes=MAX_STEP_BYTES_IN_PAGE,
    )
    page = await call.read(question)
    cursor = None if page.next is None else f"{page.next[0]}-{page.next[1]}"
    return Response(StepPageView(steps=tuple(map(_row, page.steps)), next_cursor=cursor))


def _row(step: ListedStep) -> StepRow:
    shown = {} if step.result is None else payload.shown("result", step.result, step.encoding)
    return StepRow(
        name=step.name,
        size=step.size,
        call_index=step.call_index,
        at=step.at,
        encoding=step.encoding,
        **shown,
    )


def _after(cursor: str) -> tuple[int, str]:
    if not cursor:
        return (-1, "")
    place = _CURSOR.fullmatch(cursor)
    if place is None or int(place[1]) > MAX_INT or len(place[2].encode()) > MAX_NAME_BYTES:
        raise bad_cursor("it is not one of this list")
    return int(place[1]), place[2]


@serves(GET_STEP)
async def get_step(call: ServerCall) -> Response:
    """Return one stored step."""
    name = call.path["name"]
    step = await call.read(GetStep(execution_id=call.execution_id, step_name=name))
    if step is None:
        raise HttpError(404, "no step of this name is stored", "not_found", kind="not_found", field="name")
    shown = payload.shown("result", step.result, step.encoding)
    return Response(
        OneStep(name=step.name, call_index=step.call_index, at=step.at, encoding=step.encoding, **shown)
    )
