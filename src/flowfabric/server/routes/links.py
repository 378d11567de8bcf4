"""Approval links: made by operators, shown to anybody, used once."""

from __future__ import annotations

from html import escape
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from flowfabric.model import checks
from flowfabric.model.errors import FlowFabricError, refuse
from flowfabric.model.limits import DAY_MS, MAX_INT
from flowfabric.model.operations.access import Signed
from flowfabric.model.operations.signal import ApproveSignal, SignalDuplicate
from flowfabric.server import audit
from flowfabric.server.call import Answer, Call
from flowfabric.server.errors import HttpError, bad_request, unprocessable
from flowfabric.server.forms import Ms, Uuid, path_uuid
from flowfabric.server.links import CLOSED, Link, Outdated, Tampered, open_link, seal
from flowfabric.server.pages import (
    MAX_COMMENT_LENGTH,
    MAX_NAME_LENGTH,
    PAGE_HEADERS,
    page,
    question_page,
)
from flowfabric.server.roles import Need
from flowfabric.server.routes.signals import answer_missing_waitpoint
from flowfabric.server.routing import endpoint
from flowfabric.storage.minting import new_uuid

LONGEST_MS: Final = 3_650 * DAY_MS
"""Ten years."""
MAX_CHOICES: Final = 8
GONE: Final = frozenset(
    {"waitpoint_closed", "target_not_signalable", "waitpoint_not_found", "execution_not_found"}
)
OVER: Final = "This question is closed: somebody answered it, or it is over."
IGNORED: Final = "It was noted, but it is not what the work waits for."
EFFECTS: Final = {
    "resume_condition_satisfied": "The work goes on.",
    "appended_to_waitpoint": "It was noted; the work waits for more.",
    "buffered_for_pending_waitpoint": "It was noted for when the work asks.",
    "signal_ignored_not_in_condition": IGNORED,
    "signal_ignored_matcher_failed": IGNORED,
    "no_op": IGNORED,
}


class LinkForm(Struct, frozen=True):
    """A link to make: for one signal, or for several to choose from."""

    signal_name: str | None = None
    signal_names: Annotated[tuple[str, ...], Meta(min_length=1, max_length=MAX_CHOICES)] | None = None
    expires_in_ms: Annotated[int, Meta(ge=1, le=LONGEST_MS)] | None = None
    expires_at: Ms | None = None
    """In place of `expires_in_ms`."""
    source_identity: str | None = None
    """Who is asked; without it the visitor says who they are."""
    link_id: Uuid | None = None
    """The caller's own id: the same request with the same id gives the same link, also when the wait is over."""


class LinkAnswer(Struct, frozen=True):
    """What a visitor answers."""

    signal: str | None = None
    """One of the link's signals; it may be left out when there is only one."""
    comment: Annotated[str, Meta(max_length=MAX_COMMENT_LENGTH)] = ""
    """Delivered as the payload `{"comment": ...}`."""
    name: Annotated[str, Meta(max_length=MAX_NAME_LENGTH)] = ""
    """Who answers, where the link does not say."""


def _choices(form: LinkForm) -> tuple[str, ...]:
    if form.signal_names is not None and form.signal_name is not None:
        raise bad_request("give signal_name or signal_names, not both", field="signal_names")
    if form.signal_names is None and form.signal_name is None:
        raise unprocessable("signal_name", "is required")
    return form.signal_names or (form.signal_name or "",)


def _expiry(form: LinkForm, now: int) -> int:
    if form.expires_in_ms is not None and form.expires_at is not None:
        raise bad_request("give expires_in_ms or expires_at, not both", field="expires_at")
    if form.expires_at is not None:
        if form.expires_at > now + LONGEST_MS:
            raise unprocessable("expires_at", "a link lives at most ten years")
        return form.expires_at
    if form.expires_in_ms is None:
        raise unprocessable("expires_in_ms", "is required")
    return min(now + form.expires_in_ms, MAX_INT)


def _approval(link: Link, answer: LinkAnswer, now: int, waitpoint_id: str = "") -> ApproveSignal:
    who = link.source_identity or answer.name.strip()
    return ApproveSignal(
        execution_id=link.execution_id, waitpoint_id=waitpoint_id or link.waitpoint_id, signal_id=new_uuid(),
        signal_name=answer.signal or "", source_identity=who,
        payload=msgspec.json.encode({"comment": answer.comment}) if answer.comment.strip() else b"",
        # One use, whatever is answered. It is remembered as long as the link lives: after that its time refuses it.
        idempotency_key=f"link:{link.nonce}", dedup_ttl_ms=min(max(link.expires_at - now, 0) + 60_000, MAX_INT),
        actor=who or f"link by {link.issued_by}"[:128],
    )  # fmt: skip


@endpoint(
    "POST", "/v1/executions/{id}/waitpoints/{waitpoint_id}/link", Need.OPERATE, body=LinkForm,
    answers=((201, "The link, and until when it works."),),
)  # fmt: skip
async def create_link(call: Call) -> Answer:
    """Make a link that lets its holder send one signal to a waitpoint."""
    form: LinkForm = call.body
    now = call.store.now()
    link = Link(
        kid="", execution_id=call.execution_id,
        waitpoint_id=path_uuid("waitpoint_id", call.path["waitpoint_id"]), signal_names=_choices(form),
        source_identity=form.source_identity or "", issued_by=call.actor, expires_at=_expiry(form, now),
        nonce=form.link_id or new_uuid(),
    )  # fmt: skip
    checks.name("source_identity", link.source_identity, empty=True)
    for name in link.signal_names:
        _approval(link, LinkAnswer(name), now).check()
    try:
        sealed = await seal(call.store, link)
    except FlowFabricError as error:
        answer_missing_waitpoint(error)
        raise
    _, signed = await open_link(call.store, sealed)
    if signed.state == CLOSED and form.link_id is None:
        raise refuse("waitpoint_closed", field="waitpoint_id")
    base = call.server.settings.public_url.rstrip("/") or call.server.address
    url = f"{base}/links/{sealed}"
    return Answer({"url": url, "expires_at": link.expires_at}, 201, headers=(("cache-control", "no-store"),))


@endpoint("GET", "/links/{signed}", Need.NOTHING, answers=((200, "A page that asks."),))
async def show_link(call: Call) -> Answer:
    """Show what a link is about; this changes nothing."""
    try:
        return question_page(*await _usable(call))
    except Unusable as error:
        return _refused(call, error)


@endpoint(
    "POST", "/links/{signed}", Need.NOTHING, body=LinkAnswer, body_optional=True, form=True,
    answers=((200, "What the signal did."), (409, "The work starts again after an interruption; try again soon.")),
)  # fmt: skip
async def use_link(call: Call) -> Answer:
    """Send a signal of a link."""
    answer: LinkAnswer = call.body or LinkAnswer()
    try:
        link, signed = await _usable(call)
        answer = _chosen(link, answer)
        effect = await _send(call, _approval(link, answer, call.store.now(), signed.successor), link)
    except Unusable as error:
        return _refused(call, error)
    text = EFFECTS.get(effect, "It was delivered.")
    sent = f"<p>Your answer <strong>{escape(answer.signal or '')}</strong> was delivered. {escape(text)}</p>"
    return page("Thank you", sent)


def _chosen(link: Link, answer: LinkAnswer) -> LinkAnswer:
    try:
        checks.name("name", answer.name, empty=True)
        checks.lines("comment", answer.comment)
    except FlowFabricError as error:
        raise Unusable(f"{error.field}: {error.text}", 400, "invalid_input") from error
    if answer.signal is None and len(link.signal_names) == 1:
        return msgspec.structs.replace(answer, signal=link.signal_names[0])
    if answer.signal not in link.signal_names:
        raise Unusable(f"Choose one of: {', '.join(link.signal_names)}.", 400, "invalid_input")
    return answer


class Unusable(Exception):
    """A link that does nothing, or nothing any more."""

    def __init__(self, text: str, status: int = 410, code: str = "gone") -> None:
        super().__init__(text)
        self.text = text
        self.status = status
        self.code = code


async def _send(call: Call, approval: ApproveSignal, link: Link) -> str:
    try:
        reply = await call.apply(approval)
    except FlowFabricError as error:
        _note(call, approval, link, error.code)
        if error.code in GONE:
            raise Unusable(OVER) from error
        raise
    if isinstance(reply, SignalDuplicate):
        _note(call, approval, link, "used_before")
        raise Unusable("This link was used before; the signal was delivered then.")
    _note(call, approval, link, reply.effect)
    return reply.effect


async def _usable(call: Call) -> tuple[Link, Signed]:
    try:
        link, signed = await open_link(call.store, call.path["signed"])
    except Tampered as error:
        raise Unusable("There is no such link.", 404, "not_found") from error
    except Outdated as error:
        raise Unusable("This link is too old: the key that signed it is no longer used.") from error
    if link.expires_at <= call.store.now():
        raise Unusable("This link is too old.")
    if signed.state == CLOSED:
        raise Unusable(OVER)
    if signed.outlived and not signed.successor:
        # Its attempt was interrupted before it waited: an answer given now would be buffered where nobody looks.
        raise Unusable(
            "The work was interrupted and starts again; open the link again soon.", 409, "not_ready"
        )
    return link, signed


def _refused(call: Call, error: Unusable) -> Answer:
    """Refuse: people get a page, programs the error body."""
    accepted = next((value for name, value in call.scope["headers"] if name == b"accept"), b"")
    if b"text/html" in accepted:
        return page("This does not work", f"<p>{escape(error.text)}</p>", error.status)
    raise HttpError(error.status, error.text, error.code, kind=error.code, headers=PAGE_HEADERS) from error


def _note(call: Call, approval: ApproveSignal, link: Link, outcome: str) -> None:
    audit.record(
        "link_used", who=approval.source_identity or "unknown", issued_by=link.issued_by,
        execution_id=link.execution_id, waitpoint_id=approval.waitpoint_id, signal_name=approval.signal_name,
        outcome=outcome, request_id=call.request_id,
    )  # fmt: skip
