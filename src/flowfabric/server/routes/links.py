"""Approval links: made by operators, shown to anybody, used once."""

from __future__ import annotations

from html import escape
from typing import Annotated, Final

from msgspec import Meta, Struct

from flowfabric.model.contracts.reads import GetExecution
from flowfabric.model.contracts.waiting import ApproveSignal, SignalDuplicate
from flowfabric.model.errors import FlowFabricError, refuse
from flowfabric.model.limits import DAY_MS, MAX_INT
from flowfabric.server import audit
from flowfabric.server.call import Answer, Call
from flowfabric.server.errors import HttpError
from flowfabric.server.forms import path_uuid
from flowfabric.server.links import (
    CLOSED,
    PAGE_HEADERS,
    Link,
    Outdated,
    Tampered,
    open_link,
    page,
    question_page,
    seal,
)
from flowfabric.server.roles import Need
from flowfabric.server.routes.signals import answer_missing_waitpoint
from flowfabric.server.routing import endpoint
from flowfabric.storage.minting import new_uuid

LONGEST_MS: Final = 3_650 * DAY_MS
"""Ten years."""
HTML: Final = "text/html; charset=utf-8"
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
    """A link to make."""

    signal_name: str
    expires_in_ms: Annotated[int, Meta(ge=1, le=LONGEST_MS)]
    source_identity: str | None = None


def _approval(link: Link, now: int) -> ApproveSignal:
    return ApproveSignal(
        execution_id=link.execution_id, waitpoint_id=link.waitpoint_id, signal_id=new_uuid(),
        signal_name=link.signal_name, key_suffix=f"link:{link.nonce}", source_identity=link.source_identity,
        # The use is remembered as long as the link lives: after that it is refused by its time.
        dedup_ttl_ms=min(max(link.expires_at - now, 0) + 60_000, MAX_INT),
        actor=link.source_identity or f"link by {link.issued_by}"[:128],
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
        waitpoint_id=path_uuid("waitpoint_id", call.path["waitpoint_id"]), signal_name=form.signal_name,
        source_identity=form.source_identity or "", issued_by=call.actor,
        expires_at=min(now + form.expires_in_ms, MAX_INT), nonce=new_uuid(),
    )  # fmt: skip
    _approval(link, now).check()
    try:
        sealed = await seal(call.store, link)
    except FlowFabricError as error:
        answer_missing_waitpoint(error)
        raise
    _, signed = await open_link(call.store, sealed)
    if signed.state == CLOSED:
        raise refuse("waitpoint_closed", field="waitpoint_id")
    base = call.server.settings.public_url.rstrip("/") or call.server.address
    url = f"{base}/links/{sealed}"
    return Answer({"url": url, "expires_at": link.expires_at}, 201, headers=(("cache-control", "no-store"),))


@endpoint("GET", "/links/{signed}", Need.NOTHING, answers=((200, "A page that asks."),))
async def show_link(call: Call) -> Answer:
    """Show what a link is about; this changes nothing."""
    try:
        link, reason = await _usable(call)
    except Unusable as error:
        return _refused(call, error)
    run = await call.read(GetExecution(execution_id=link.execution_id))
    return _page(question_page(link, run.execution_kind, run.namespace, reason))


@endpoint("POST", "/links/{signed}", Need.NOTHING, answers=((200, "What the signal did."),))
async def use_link(call: Call) -> Answer:
    """Send the signal of a link."""
    try:
        link, _ = await _usable(call)
        effect = await _send(call, link)
    except Unusable as error:
        return _refused(call, error)
    text = EFFECTS.get(effect, "It was delivered.")
    body = f"<p>The signal <strong>{escape(link.signal_name)}</strong> was delivered. {escape(text)}</p>"
    return _page(page("Thank you", body))


class Unusable(Exception):
    """A link that does nothing, or nothing any more."""

    def __init__(self, text: str, status: int = 410, code: str = "gone") -> None:
        super().__init__(text)
        self.text = text
        self.status = status
        self.code = code


async def _send(call: Call, link: Link) -> str:
    try:
        reply = await call.apply(_approval(link, call.store.now()))
    except FlowFabricError as error:
        _note(call, link, error.code)
        if error.code in GONE:
            raise Unusable(OVER) from error
        raise
    if isinstance(reply, SignalDuplicate):
        _note(call, link, "used_before")
        raise Unusable("This link was used before; the signal was delivered then.")
    _note(call, link, reply.effect)
    return reply.effect


async def _usable(call: Call) -> tuple[Link, str]:
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
    return link, signed.reason_code


def _page(content: bytes, status: int = 200) -> Answer:
    return Answer(status=status, raw=content, content_type=HTML, headers=PAGE_HEADERS)


def _refused(call: Call, error: Unusable) -> Answer:
    """Refuse: people get a page, programs the error body."""
    accepted = next((value for name, value in call.scope["headers"] if name == b"accept"), b"")
    if b"text/html" in accepted:
        return _page(page("This link does not work", f"<p>{escape(error.text)}</p>"), error.status)
    raise HttpError(error.status, error.text, error.code, kind=error.code, headers=PAGE_HEADERS) from error


def _note(call: Call, link: Link, outcome: str) -> None:
    audit.record(
        "link_used", who=link.source_identity or "unknown", issued_by=link.issued_by,
        execution_id=link.execution_id, waitpoint_id=link.waitpoint_id, signal_name=link.signal_name,
        outcome=outcome, request_id=call.request_id,
    )  # fmt: skip
