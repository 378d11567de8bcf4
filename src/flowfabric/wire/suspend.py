"""Waiting for signals: suspensions and waitpoints."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import UNSET, Raw, UnsetType

from flowfabric.model.conditions import OPERATOR_ONLY, TIMEOUT_ONLY, Condition, Node
from flowfabric.model.errors import invalid
from flowfabric.model.operations.suspend import Binding, SatisfiedAtOnce, Suspend, Suspended
from flowfabric.model.operations.suspend_resume import Resumed, ResumeExecution
from flowfabric.model.operations.suspend_waitpoint import (
    CloseWaitpoint,
    CreateWaitpoint,
    ListWaitpoints,
    OpenWaitpoint,
    ReadToken,
    WaitpointClosed,
    WaitpointCreated,
)
from flowfabric.model.wait_result import WaitSignal, wait_signal
from flowfabric.wire.answers import View, one_of
from flowfabric.wire.examples import FENCE, LEASE, WAITPOINT
from flowfabric.wire.fields import U64, Body, HolderBody, Integer, Ms, Uuid
from flowfabric.wire.read import WaitpointQuery
from flowfabric.wire.rights import Right
from flowfabric.wire.route import RUN, Incoming, always, keyed, route
from flowfabric.wire.views import WaitpointRow

_ALONE = {(OPERATOR_ONLY,): "OperatorOnly", (TIMEOUT_ONLY,): "TimeoutOnly"}


class SuspendBody(HolderBody, frozen=True):
    """What to wait for: signals by name, or a whole condition."""

    reason_code: str = "waiting_for_signal"
    signals: tuple[str, ...] = ()
    mode: str | None = None
    count: Integer | None = None
    distinct: str | None = None
    condition: Any = None
    timeout_ms: Integer | None = None
    timeout_at: Ms | None = None
    timeout_behavior: str | None = None
    waitpoint_key: str | None = None
    use_waitpoint_id: Uuid | None = None
    idempotency_key: str | None = None
    step_name: str | None = None
    resume_delay_ms: Integer = 0
    suspension_id: Uuid | None = None
    """The caller's own ids, so that a repeat is recognised; `waitpoints` takes the place of `use_waitpoint_id`."""
    waitpoints: tuple[Binding, ...] | None = None
    allow_operator_override: bool = True
    requested_by: str = "worker"
    resume_policy_json: str = ""
    continuation_metadata_pointer: str = ""
    attempt_index: Integer | None = None
    message: str = ""
    """What whoever is to answer is shown."""
    details: Raw | UnsetType = UNSET
    """More about it: an object."""


def _send_condition(command: Suspend) -> dict[str, Any]:
    """Return the fields that say what a suspension waits for."""
    condition: Condition = command.condition
    fields: dict[str, Any] = {"condition": None, "allow_operator_override": condition.operator_override}
    if condition.form == "tree":
        if len(condition.tree) != 1:
            raise invalid("condition", "a tree has one root")
        return fields | {"condition": {"v": 1, "composite": True, "tree": _node(condition.tree[0])}}
    if condition.names in _ALONE:
        return fields | {"condition": {"kind": _ALONE[condition.names]}}
    return fields | {
        "signals": condition.names,
        "mode": condition.mode,
        "count": condition.minimum if condition.mode == "count" else None,
        "waitpoint_key": condition.waitpoint_key or None,
    }


def _node(node: Node) -> dict[str, Any]:
    matcher = {"kind": "ByName", "name": node.matcher} if node.matcher else None
    if node.kind == "AllOf":
        return {"kind": "AllOf", "members": [_node(member) for member in node.members]}
    if node.kind == "Count":
        return {
            "kind": "Count",
            "n": node.n,
            "count_kind": node.count_kind,
            "matcher": matcher,
            "waitpoints": list(node.waitpoint_keys),
        }
    if node.kind == "Single":
        return {"kind": "Single", "waitpoint_key": "".join(node.waitpoint_keys[:1]), "matcher": matcher}
    return {"kind": node.kind}


class SuspendedView(View, frozen=True, kw_only=True):
    """A suspension, its waitpoints and their tokens, which are for the holder alone."""

    MODEL: ClassVar[Any] = Suspended

    suspension_id: str
    waitpoint_id: str
    waitpoint_key: str
    waitpoint_token: str
    additional_waitpoints: tuple[OpenWaitpoint, ...]

    @classmethod
    def of(cls, source: Any, /, **given: Any) -> Any:
        """Build it from the answer of the engine."""
        first = source.waitpoint
        return super().of(
            source,
            waitpoint_id=first.waitpoint_id,
            waitpoint_key=first.waitpoint_key,
            waitpoint_token=first.waitpoint_token,
            **given,
        )

    @property
    def waitpoint(self) -> OpenWaitpoint:
        """Return the primary waitpoint."""
        return OpenWaitpoint(self.waitpoint_id, self.waitpoint_key, self.waitpoint_token)

    def model(self) -> Any:
        """Return the answer of the engine."""
        return Suspended(self.suspension_id, self.waitpoint, self.additional_waitpoints)


class SatisfiedView(SuspendedView, frozen=True, kw_only=True):
    """A suspension that was not needed: signals were there already."""

    MODEL: ClassVar[Any] = SatisfiedAtOnce

    resume_signals: tuple[WaitSignal, ...]

    @classmethod
    def of(cls, source: Any, /, **given: Any) -> Any:
        """Build it from the answer of the engine."""
        return super().of(source, resume_signals=tuple(map(wait_signal, source.resume_signals)), **given)

    def model(self) -> Any:
        """Return the answer of the engine."""
        signals = tuple(signal.view() for signal in self.resume_signals)
        return SatisfiedAtOnce(self.suspension_id, self.waitpoint, self.additional_waitpoints, signals)


SUSPEND = route(
    "suspend", "POST", f"{RUN}/suspend", Right.WORK,
    "Give the lease back until a condition on signals holds; keep it where that is so already.",
    command=Suspend, body=SuspendBody, answer=one_of(Suspended=SuspendedView, AlreadySatisfied=SatisfiedView),
    safe=keyed, sends=_send_condition,
    example={"fence": FENCE, "signals": ["approved"], "timeout_ms": 3600000},
    examples={
        200: {
            "Suspended": {
                "suspension_id": LEASE, "waitpoint_id": WAITPOINT, "waitpoint_key": "wpk:1",
                "waitpoint_token": "k1:…", "additional_waitpoints": [],
            }
        }
    },
)  # fmt: skip


class ResumeBody(Body, frozen=True):
    """When a resumed execution may go on."""

    resume_delay_ms: U64 | None = None


RESUME = route(
    "resume", "POST", f"{RUN}/resume", Right.OPERATE, "Resume a suspended execution.",
    command=ResumeExecution, body=ResumeBody, body_optional=True, answer=one_of(Resumed),
    example={"resume_delay_ms": 0},
)  # fmt: skip


class WaitpointBody(HolderBody, frozen=True, kw_only=True):
    """A waitpoint to open ahead of the suspension that will use it."""

    expires_in_ms: Integer
    waitpoint_key: str | None = None
    waitpoint_id: Uuid | None = None
    """The caller's own id, so that a repeat is recognised."""
    message: str = ""
    """What whoever is to answer is shown."""
    details: Raw | UnsetType = UNSET
    """More about it: an object."""


def generated_key(waitpoint_id: str) -> str:
    """Return the key of a waitpoint that was given none."""
    return f"wpk:{waitpoint_id}"


def _waitpoint(call: Incoming, body: WaitpointBody) -> dict[str, Any]:
    waitpoint_id = body.waitpoint_id or call.new_id()
    return {"waitpoint_id": waitpoint_id, "waitpoint_key": body.waitpoint_key or generated_key(waitpoint_id)}


class CreatedView(View, frozen=True, kw_only=True):
    """A pending waitpoint and its token."""

    MODEL: ClassVar[Any] = WaitpointCreated

    waitpoint_id: str
    waitpoint_key: str
    waitpoint_token: str

    @classmethod
    def of(cls, source: Any, /, **given: Any) -> Any:
        """Build it from the answer of the engine."""
        return super().of(source.waitpoint, **given)

    def model(self) -> WaitpointCreated:
        """Return the answer of the engine."""
        return WaitpointCreated(OpenWaitpoint(self.waitpoint_id, self.waitpoint_key, self.waitpoint_token))


CREATE_WAITPOINT = route(
    "create_waitpoint", "POST", f"{RUN}/waitpoints", Right.WORK,
    "Open a waitpoint whose token can be handed out before suspending.",
    command=CreateWaitpoint, body=WaitpointBody, answer=one_of(Created=CreatedView), takes=_waitpoint,
    example={"fence": FENCE, "waitpoint_key": "approval", "expires_in_ms": 3600000},
)  # fmt: skip


class CloseQuery(Body, frozen=True):
    """Why."""

    reason: str = "proactive_close"


CLOSE_WAITPOINT = route(
    "close_waitpoint", "DELETE", f"{RUN}/waitpoints/{{waitpoint_id}}", Right.WORK,
    "Close a pending waitpoint that will not be used.",
    command=CloseWaitpoint, query=CloseQuery, answer=one_of(Closed=WaitpointClosed), safe=always,
)  # fmt: skip
LIST_WAITPOINTS = route(
    "pending_waitpoints", "GET", f"{RUN}/pending-waitpoints", Right.READ,
    "List the open waitpoints of an execution, by id; `after` the last one until there are none.",
    questions=(ListWaitpoints,), query=WaitpointQuery, answer=tuple[WaitpointRow, ...], classic=True,
)  # fmt: skip


class TokenOfWaitpoint(View, frozen=True, kw_only=True):
    """The token that signals to a waitpoint must carry."""

    token: str


READ_TOKEN = route(
    "waitpoint_token",
    "GET",
    f"{RUN}/waitpoints/{{waitpoint_id}}/token",
    Right.ADMIN,
    "Return the token of an open waitpoint: a credential, never cached.",
    questions=(ReadToken,),
    answer=TokenOfWaitpoint,
    classic=True,
)
