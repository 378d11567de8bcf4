"""Administration: tokens of people and programs, and the secret that signs waitpoint tokens."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from flowfabric.model.errors import FlowFabricError
from flowfabric.model.limits import MAX_INT
from flowfabric.model.operations.access import CreateToken, DeleteToken, ListTokens
from flowfabric.model.operations.access_secret import RotateSecret
from flowfabric.model.records import AccessToken
from flowfabric.server import audit
from flowfabric.server.auth import digest, new_token
from flowfabric.server.call import Answer, Call
from flowfabric.server.errors import HttpError, bad_request, unprocessable
from flowfabric.server.forms import SHOWN, Ms
from flowfabric.server.roles import ROLES, Need, Role
from flowfabric.server.routing import endpoint
from flowfabric.storage.minting import new_uuid

BAD_KID: Final = "new_kid must be non-empty and must not contain ':'"
BAD_SECRET: Final = "new_secret_hex must be a non-empty even-length hex string"  # noqa: S105 - a message
BUSY: Final = "too many concurrent admin_rotate calls (server max: 1); retry with backoff"
ROTATION_SECONDS: Final = 120
TOO_LONG: Final = (
    f"rotation exceeded {ROTATION_SECONDS}s server-side timeout; retry is safe with the same new_kid"
)
_HEX: Final = re.compile("(?:[0-9a-fA-F]{2})+")


class TokenForm(Struct, frozen=True):
    """A token to create."""

    name: str
    role: Annotated[str, Meta(extra_json_schema={"enum": list(Role)})]
    namespace: str | None = None
    expires_at: Ms | None = None


def _shown(token: AccessToken) -> dict[str, Any]:
    return {
        "token_id": token.token_id, "name": token.name, "role": token.role,
        "namespace": token.namespace or None, "expires_at": token.expires_at or None,
        "created_at": token.created_at, "created_by": token.created_by,
    }  # fmt: skip


@endpoint(
    "POST", "/v1/admin/tokens", Need.ADMIN, body=TokenForm,
    answers=((201, "The token. It is shown this once."),),
)  # fmt: skip
async def create_token(call: Call) -> Answer:
    """Create a token with a role."""
    form: TokenForm = call.body
    if form.role not in set(Role):
        raise unprocessable("role", f"there is no role {form.role[:SHOWN]!r}; choose one of {ROLES}")
    token = new_token()
    created = await call.apply(
        CreateToken(
            token_id=new_uuid(), name=form.name, role=form.role, digest=digest(token.encode()),
            namespace=form.namespace or "", expires_at=form.expires_at or 0, actor=call.actor,
        )
    )  # fmt: skip
    call.server.access.forget()
    audit.record(
        "token_created", who=call.actor, token_id=created.token_id, token_name=created.name,
        role=created.role, namespace=created.namespace, request_id=call.request_id,
    )  # fmt: skip
    shown = _shown(created) | {"token": token}
    return Answer(shown, 201, headers=(("cache-control", "no-store"),))


@endpoint("GET", "/v1/admin/tokens", Need.ADMIN)
async def list_tokens(call: Call) -> Answer:
    """List tokens without what they are."""
    tokens = await call.read(ListTokens())
    return Answer({"tokens": [_shown(token) for token in tokens], "next_cursor": None})


@endpoint("DELETE", "/v1/admin/tokens/{token_id}", Need.ADMIN)
async def delete_token(call: Call) -> Answer:
    """Delete a token; it opens nothing from now on."""
    gone = await call.apply(DeleteToken(token_id=call.path["token_id"], actor=call.actor))
    call.server.access.forget()
    audit.record(
        "token_deleted", who=call.actor, token_id=gone.token_id, token_name=gone.name, role=gone.role,
        namespace=gone.namespace, request_id=call.request_id,
    )  # fmt: skip
    return Answer("Deleted")


class RotationForm(Struct, frozen=True):
    """The key that signs from now on."""

    new_kid: str
    new_secret_hex: str


@endpoint("POST", "/v1/admin/rotate-waitpoint-secret", Need.ADMIN, body=RotationForm, classic=True)
async def rotate(call: Call) -> Answer:
    """Sign waitpoint tokens with a new secret; older tokens stay good for the grace that is configured."""
    form: RotationForm = call.body
    if not form.new_kid or ":" in form.new_kid:
        raise bad_request(BAD_KID, field="new_kid")
    if not _HEX.fullmatch(form.new_secret_hex):
        raise bad_request(BAD_SECRET, field="new_secret_hex")
    gate = call.server.rotating
    if gate.locked():
        raise HttpError(429, BUSY, "resource_exhausted", retryable=True)
    async with gate:
        await _rotate(call, form)
    partitions = call.store.partitions.flow
    audit.record(
        "waitpoint_hmac_rotation_complete", who=call.actor, new_kid=form.new_kid,
        total_partitions=partitions, rotated=partitions, failed_count=0, request_id=call.request_id,
    )  # fmt: skip
    return Answer({"rotated": partitions, "failed": [], "in_progress": [], "new_kid": form.new_kid})


async def _rotate(call: Call, form: RotationForm) -> None:
    command = RotateSecret(
        new_kid=form.new_kid, new_secret_hex=form.new_secret_hex.lower(),
        grace_ms=min(call.server.settings.hmac_grace_ms, MAX_INT), actor=call.actor,
    )  # fmt: skip
    facts = {"who": call.actor, "new_kid": form.new_kid, "request_id": call.request_id}
    try:
        async with asyncio.timeout(ROTATION_SECONDS):
            await call.apply(command)
    except FlowFabricError as error:
        audit.record("waitpoint_hmac_rotation_failed", failed=True, code=error.code, **facts)
        raise
    except TimeoutError as error:
        audit.record(
            "waitpoint_hmac_rotation_timeout_http_504", failed=True, timeout_s=ROTATION_SECONDS, **facts
        )
        raise HttpError(504, TOO_LONG, "timeout", kind="timeout", retryable=True) from error
