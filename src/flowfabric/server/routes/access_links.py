"""Approval links: made by operators, shown to anybody, used once."""

from __future__ import annotations

from html import escape
from typing import Final

import msgspec

from flowfabric.model import checks
from flowfabric.model.errors import FlowFabricError, refuse
from flowfabric.model.limits import MAX_INT
from flowfabric.model.operations.access import ApprovalLink, Signed
from flowfabric.model.operations.signal import ApproveSignal, SignalDuplicate
from flowfabric.server.access import audit
from flowfabric.server.access.links import CLOSED, Link, Outdated, Tampered, open_link, seal
from flowfabric.server.http.call import NO_STORE, Response, ServerCall
from flowfabric.server.http.pages import PAGE_HEADERS, page, question_page
from flowfabric.server.http.routing import serves
from flowfabric.server.routes.signal import answer_missing_waitpoint
from flowfabric.storage.minting import new_uuid
from flowfabric.wire.access import CREATE_LINK, LONGEST_LINK_MS, SHOW_LINK, USE_LINK, LinkAnswerBody, LinkBody
from flowfabric.wire.errors import HttpError, bad_request, unprocessable
from flowfabric.wire.fields import path_uuid

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


def _choices(form: LinkBody) -> tuple[str, ...]:
    if form.signal_names is not None and form.signal_name is not None:
        raise bad_request("give signal_name or signal_names, not both", field="signal_names")
    if form.signal_names is None and form.signal_name is None:
        raise unprocessable("signal_name", "is required")
    return form.signal_names or (form.signal_name or "",)


def _expiry(form: LinkBody, now: int) -> int:
    if form.expires_in_ms is not None and form.expires_at is not None:
        raise bad_request("give expires_in_ms or expires_at, not both", field="expires_at")
    if form.expires_at is not None:
        if form.expires_at > now + LONGEST_LINK_MS:
            raise unprocessable("expires_at", "a link lives at most ten years")
        return form.expires_at
    if form.expires_in_ms is None:
        raise unprocessable("expires_in_ms", "is required")
    return min(now + form.expires_in_ms, MAX_INT)


def _approval(link: Link, answer: LinkAnswerBody, now: int, waitpoint_id: str = "") -> ApproveSignal:
    who = link.source_identity or answer.name.strip()
    return ApproveSignal(
        execution_id=link.execution_id,
        waitpoint_id=waitpoint_id or link.waitpoint_id,
        signal_id=new_uuid(),
        signal_name=answer.signal or "",
        source_identity=who,
        payload=msgspec.json.encode({"comment": answer.comment}) if answer.comment.strip() else b"",
        # One use, whatever is answered. It is remembered as long as the link lives: after that its time refuses it.
        idempotency_key=f"link:{link.nonce}",
        dedup_ttl_ms=min(max(link.expires_at - now, 0) + 60_000, MAX_INT),
        actor=who or f"link by {link.issued_by}"[:128],
    )


@serves(CREATE_LINK)
async def create_link(call: ServerCall) -> Response:
    """Make a link that lets its holder send one signal to a waitpoint."""
    form: LinkBody = call.body
    now = call.store.now()
    link = Link(
        kid="",
        execution_id=call.execution_id,
        waitpoint_id=path_uuid("waitpoint_id", call.path["waitpoint_id"]),
        signal_names=_choices(form),
        source_identity=form.source_identity or "",
        issued_by=call.actor,
        expires_at=_expiry(form, now),
        nonce=form.link_id or new_uuid(),
    )
    checks.name("source_identity", link.source_identity, empty=True)
    for name in link.signal_names:
        _approval(link, LinkAnswerBody(name), now).check()
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
    return Response(ApprovalLink(url, link.expires_at), 201, headers=NO_STORE)


@serves(SHOW_LINK)
async def show_link(call: ServerCall) -> Response:
    """Show what a link is about; this changes nothing."""
    try:
        return question_page(*await _usable(call))
    except Unusable as error:
        return _refused(call, error)


@serves(USE_LINK)
async def use_link(call: ServerCall) -> Response:
    """Send a signal of a link."""
    answer: LinkAnswerBody = call.body or LinkAnswerBody()
    try:
        link, signed = await _usable(call)
        answer = _chosen(link, answer)
        effect = await _send(call, _approval(link, answer, call.store.now(), signed.successor), link)
    except Unusable as error:
        return _refused(call, error)
    text = EFFECTS.get(effect, "It was delivered.")
    sent = f"<p>Your answer <strong>{escape(answer.signal or '')}</strong> was delivered. {escape(text)}</p>"
    return page("Thank you", sent)


def _chosen(link: Link, answer: LinkAnswerBody) -> LinkAnswerBody:
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


async def _send(call: ServerCall, approval: ApproveSignal, link: Link) -> str:
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


async def _usable(call: ServerCall) -> tuple[Link, Signed]:
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


def _refused(call: ServerCall, error: Unusable) -> Response:
    """Refuse: people get a page, programs the error body."""
    accepted = next((value for name, value in call.scope["headers"] if name == b"accept"), b"")
    if b"text/html" in accepted:
        return page("This does not work", f"<p>{escape(error.text)}</p>", error.status)
    raise HttpError(error.status, error.text, error.code, kind=error.code, headers=PAGE_HEADERS) from error


def _note(call: ServerCall, approval: ApproveSignal, link: Link, outcome: str) -> None:
    audit.record(
        "link_used",
        who=approval.source_identity or "unknown",
        issued_by=link.issued_by,
        execution_id=link.execution_id,
        waitpoint_id=approval.waitpoint_id,
        signal_name=approval.signal_name,
        outcome=outcome,
        request_id=call.request_id,
    )
