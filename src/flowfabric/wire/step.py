"""Durable steps."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from msgspec import UNSET, Raw, UnsetType

from flowfabric.model.operations.step import GetStep, ListSteps, PutStep, StepExisting, StepStored
from flowfabric.wire import payload
from flowfabric.wire.answers import View, decoded, one_of
from flowfabric.wire.examples import FENCE
from flowfabric.wire.fields import Body, HolderBody, Integer
from flowfabric.wire.rights import Right
from flowfabric.wire.route import PAYLOAD, RUN, Incoming, always, route

STEPS_PAGE: Final = 1_000


class StepBody(HolderBody, frozen=True, kw_only=True):
    """The result of one step, as JSON or as raw bytes."""

    name: str
    result: Raw | UnsetType = UNSET
    result_base64: str | UnsetType | None = UNSET
    encoding: str | None = None
    """Of raw bytes only."""
    call_index: Integer | None = None


def _result(_: Incoming, body: StepBody) -> dict[str, Any]:
    result, encoding = payload.taken("result", body.result, body.result_base64, body.encoding)
    return {"result": result, "encoding": encoding}


def _send_result(command: PutStep) -> dict[str, Any]:
    return {"result": None, "encoding": None} | payload.sent("result", command.result, command.encoding)


class ExistingStep(View, frozen=True, kw_only=True):
    """The result that a step had already."""

    MODEL: ClassVar[Any] = StepExisting

    result: Raw | UnsetType = UNSET
    result_base64: str | UnsetType = UNSET
    encoding: str = ""

    @classmethod
    def of(cls, source: Any, /, **given: Any) -> ExistingStep:
        """Build it from the answer of the engine."""
        shown = payload.shown("result", source.result, source.encoding)
        return cls(**shown, encoding="" if "result" in shown else source.encoding, **given)

    def model(self) -> StepExisting:
        """Return the answer of the engine."""
        encoding = self.encoding if isinstance(self.result_base64, str) else payload.JSON
        return StepExisting(payload.bytes_of(self.result, self.result_base64), encoding)


class _Existing(View, frozen=True, kw_only=True, rename={"existing": "Existing"}):
    existing: ExistingStep


def _stored(_: Any, reply: Any) -> StepStored | StepExisting:
    """Read the answer without losing the bytes of a result."""
    if reply.body == b'"Stored"':
        return StepStored()
    found: _Existing = decoded(reply.body, _Existing)
    return found.existing.model()


PUT_STEP = route(
    "put_step", "POST", f"{RUN}/steps", Right.WORK, "Store the result of a step; the first one stands.",
    command=PutStep, body=StepBody, answer=one_of(Stored=StepStored, Existing=ExistingStep), limit=PAYLOAD,
    safe=always, names={"name": "step_name"}, takes=_result, sends=_send_result, reads=_stored,
    example={"fence": FENCE, "name": "fetch", "result": {"size": 12}},
)  # fmt: skip


class StepQuery(Body, frozen=True):
    """Which page of the steps."""

    limit: int = STEPS_PAGE
    cursor: str = ""


class OneStep(View, frozen=True, kw_only=True):
    """A stored step."""

    name: str
    result: Raw | UnsetType = UNSET
    result_base64: str | UnsetType = UNSET
    call_index: int
    at: int
    encoding: str


class StepRow(View, frozen=True, kw_only=True):
    """A stored step in a list; its result is left out where there is no room for it."""

    name: str
    size: int
    call_index: int
    at: int
    encoding: str
    result: Raw | UnsetType = UNSET
    result_base64: str | UnsetType = UNSET


class StepPageView(View, frozen=True, kw_only=True):
    """Stored steps in the order of their calls."""

    steps: tuple[StepRow, ...]
    next_cursor: str | None


LIST_STEPS = route(
    "list_steps",
    "GET",
    f"{RUN}/steps",
    Right.READ,
    "List stored steps in the order of their calls; the first results come along, up to 4 MiB in one page.",
    questions=(ListSteps,),
    query=StepQuery,
    answer=StepPageView,
)
GET_STEP = route(
    "get_step",
    "GET",
    f"{RUN}/steps/{{name}}",
    Right.READ,
    "Return one stored step.",
    questions=(GetStep,),
    answer=OneStep,
)
