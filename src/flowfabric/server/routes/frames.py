"""What a holder tells while it works, and the results of its durable steps."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from flowfabric.model.errors import FlowFabricError, refuse
from flowfabric.model.limits import MAX_INT, MAX_NAME_BYTES, MAX_STEP_BYTES_IN_PAGE
from flowfabric.model.operations.read import GetExecution
from flowfabric.model.operations.step import GetStep, ListedStep, ListSteps, PutStep, StepExisting
from flowfabric.model.operations.stream import Appended, AppendFrames, FrameInput
from flowfabric.model.records import Execution
from flowfabric.model.state import Ownership
from flowfabric.server import render
from flowfabric.server.call import Answer, Call
from flowfabric.server.cursors import bad_cursor
from flowfabric.server.errors import HttpError, bad_request, from_engine
from flowfabric.server.forms import Integer, Ms, from_base64, json_or_base64
from flowfabric.server.roles import Need
from flowfabric.server.routes.holder import Holding, holding
from flowfabric.server.routes.tasks import step_shape
from flowfabric.server.routing import FRAMES, PAYLOAD, endpoint

STEPS_PAGE: Final = 1_000
_CURSOR: Final = re.compile(r"([0-9]{1,16})-(.+)", re.DOTALL)


class FrameForm(Struct, frozen=True):
    """One frame; its payload is text, or bytes in base64."""

    frame_type: str
    payload: str | None = None
    payload_base64: str | None = None
    mode: str | None = None
    correlation_id: str | None = None
    ts: Ms | None = None
    encoding: str | None = None
    source: str | None = None
    metadata_json: str | None = None
    patch_kind: str | None = None
    retention_maxlen: Integer | None = None
    ttl_ms: Integer | None = None
    maxlen_floor: Integer | None = None
    maxlen_ceiling: Integer | None = None
    ema_alpha: float | None = None
    step: str | None = None
    """The durable step in which it was emitted."""


class FrameBatch(Holding, frozen=True, kw_only=True):
    """Frames, appended all or none."""

    frames: tuple[FrameForm, ...]
    attempt_index: Integer | None = None
    """When given, it must be the current one."""


@endpoint("POST", "/v1/executions/{id}/frames", Need.WORK, body=FrameBatch, limit=FRAMES)
async def append_frames(call: Call) -> Answer:
    """Append frames to the stream of the running attempt."""
    held = holding(call)
    frames = tuple(_frame(f"frames[{place}]", form) for place, form in enumerate(call.body.frames))
    try:
        appended = await call.apply(
            AppendFrames(**held, frames=frames, attempt_index=call.body.attempt_index)
        )
    except FlowFabricError as error:
        if error.code != "stale_owner_cannot_append":
            raise
        run = await call.read(GetExecution(execution_id=call.execution_id))
        refusal = from_engine(_lost_lease(run, call.store.now()), classic=False)
        refusal.extra["cause"] = error.code
        raise refusal from error
    return Answer({"Appended": [_appended(each) for each in appended]})


def _lost_lease(run: Execution, now: int) -> FlowFabricError:
    """Say in the words of every other operation of a holder why the lease does not count any more."""
    if run.ownership_state is Ownership.REVOKED:
        return refuse("lease_revoked")
    if run.ownership_state is Ownership.EXPIRED or 0 < run.lease_expires_at <= now:
        return refuse("lease_expired")
    return refuse("stale_lease")


def _frame(place: str, form: FrameForm) -> FrameInput:
    if (form.payload is None) == (form.payload_base64 is None):
        raise bad_request(f"{place}.payload: give payload or payload_base64", field=f"{place}.payload")
    if form.payload_base64 is not None:
        payload = from_base64(f"{place}.payload_base64", form.payload_base64)
    else:
        payload = (form.payload or "").encode()
    return FrameInput(
        payload, form.frame_type, _given(form.mode, "durable"), form.ts, _given(form.encoding, "utf8"),
        form.correlation_id or "", _given(form.source, "worker"), form.metadata_json or "", form.patch_kind or "",
        form.retention_maxlen or 0, form.ttl_ms or 0, form.maxlen_floor or 0, form.maxlen_ceiling or 0,
        form.ema_alpha or 0.0, form.step or "",
    )  # fmt: skip


def _given(text: str | None, default: str) -> str:
    return default if text is None else text


def _appended(appended: Appended) -> dict[str, Any]:
    shape: dict[str, Any] = {"entry_id": appended.entry_id, "frame_count": appended.frame_count}
    return shape | ({"summary_version": appended.summary_version} if appended.summary_version else {})


# Durable steps.


class StepForm(Holding, frozen=True, kw_only=True):
    """The result of one step, as JSON or as raw bytes."""

    name: str
    result: msgspec.Raw | UnsetType = UNSET
    result_base64: str | UnsetType | None = UNSET
    encoding: str | None = None
    """Of raw bytes only."""
    call_index: Integer | None = None


@endpoint("POST", "/v1/executions/{id}/steps", Need.WORK, body=StepForm, limit=PAYLOAD)
async def put_step(call: Call) -> Answer:
    """Store the result of a step; the first one stands."""
    body: StepForm = call.body
    result, encoding = json_or_base64("result", body.result, body.result_base64, b"null")
    outcome = await call.apply(
        PutStep(
            **holding(call), step_name=body.name, result=result or b"",
            encoding=encoding or body.encoding or "", call_index=body.call_index,
        )
    )  # fmt: skip
    if isinstance(outcome, StepExisting):
        shown = render.json_or_base64("result", outcome.result, outcome.encoding)
        return Answer(
            {
                "Existing": shown
                | ({"encoding": outcome.encoding} if "result" not in shown and outcome.encoding else {})
            }
        )
    return Answer("Stored")


class StepQuery(Struct, frozen=True):
    """Which page of the steps."""

    limit: int = STEPS_PAGE
    cursor: str = ""


@endpoint("GET", "/v1/executions/{id}/steps", Need.READ, query=StepQuery)
async def list_steps(call: Call) -> Answer:
    """List stored steps in the order of their calls; the first results come along, up to 4 MiB in one page."""
    query: StepQuery = call.query
    if not 1 <= query.limit <= STEPS_PAGE:
        raise bad_request(f"limit: must be an integer from 1 to {STEPS_PAGE}", field="limit")
    question = ListSteps(
        execution_id=call.execution_id, after=_after(query.cursor), limit=query.limit,
        max_bytes=MAX_STEP_BYTES_IN_PAGE,
    )  # fmt: skip
    page = await call.read(question)
    cursor = None if page.next is None else f"{page.next[0]}-{page.next[1]}"
    return Answer({"steps": [_listed(step) for step in page.steps], "next_cursor": cursor})


def _listed(step: ListedStep) -> dict[str, Any]:
    shape = {
        "name": step.name, "size": step.size, "call_index": step.call_index, "at": step.at, "encoding": step.encoding,
    }  # fmt: skip
    if step.result is None:
        return shape
    return shape | render.json_or_base64("result", step.result, step.encoding)


def _after(cursor: str) -> tuple[int, str]:
    if not cursor:
        return (-1, "")
    place = _CURSOR.fullmatch(cursor)
    if place is None or int(place[1]) > MAX_INT or len(place[2].encode()) > MAX_NAME_BYTES:
        raise bad_cursor("it is not one of this list")
    return int(place[1]), place[2]


@endpoint("GET", "/v1/executions/{id}/steps/{name}", Need.READ)
async def get_step(call: Call) -> Answer:
    """Return one stored step."""
    name = call.path["name"]
    step = await call.read(GetStep(execution_id=call.execution_id, step_name=name))
    if step is None:
        raise HttpError(404, "no step of this name is stored", "not_found", kind="not_found", field="name")
    return Answer({"name": step.name} | step_shape(step))
