"""Administration: tokens of people and programs, and the secret that signs waitpoint tokens."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from flowfabric.model.errors import FlowFabricError
from flowfabric.model.limits import MAX_INT
from flowfabric.model.operations.access import CreateToken, DeleteToken, ListTokens
from flowfabric.model.operations.access_secret import RotateSecret
from flowfabric.model.records import AccessToken
from flowfabric.server.access import audit
from flowfabric.server.access.auth import digest, new_token
from flowfabric.server.http.call import NO_STORE, Response, ServerCall
from flowfabric.server.http.routing import serves
from flowfabric.storage.minting import new_uuid
from flowfabric.wire.access import (
    CREATE_TOKEN,
    DELETE_TOKEN,
    LIST_TOKENS,
    ROTATE,
    NewToken,
    RotateBody,
    RotatedView,
    TokenBody,
    TokenPage,
    TokenRow,
)
from flowfabric.wire.errors import HttpError, bad_request, unprocessable
from flowfabric.wire.fields import SHOWN
from flowfabric.wire.rights import ROLES, Role

BAD_KID: Final = "new_kid must be non-empty and must not contain ':'"
BAD_SECRET: Final = "new_secret_hex must be a non-empty even-length hex string"  # noqa: S105 - a message
BUSY: Final = "too many concurrent admin_rotate calls (server max: 1); retry with backoff"
ROTATION_SECONDS: Final = 120
TOO_LONG: Final = (
    f"rotation exceeded {ROTATION_SECONDS}s server-side timeout; retry is safe with the same new_kid"
)
_HEX: Final = re.compile("(?:[0-9a-fA-F]{2})+")


@serves(CREATE_TOKEN)
async def create_token(call: ServerCall) -> Response:
    """Create a token with a role."""
    form: TokenBody = call.body
    if form.role not in set(Role):
        raise unprocessable("role", f"there is no role {form.role[:SHOWN]!r}; choose one of {ROLES}")
    token = new_token()
    created = await call.apply(
        CreateToken(
            token_id=new_uuid(),
            name=form.name,
            role=form.role,
            digest=digest(token.encode()),
            namespace=form.namespace or "",
            expires_at=form.expires_at or 0,
            actor=call.actor,
        )
    )
    call.server.access.forget()
    audit.record(
        "token_created",
        who=call.actor,
        token_id=created.token_id,
        token_name=created.name,
        role=created.role,
        namespace=created.namespace,
        request_id=call.request_id,
    )
    return Response(NewToken(**_row(created), token=token), 201, headers=NO_STORE)


def _row(token: AccessToken) -> dict[str, Any]:
    return {
        "token_id": token.token_id,
        "name": token.name,
        "role": token.role,
        "namespace": token.namespace or None,
        "expires_at": token.expires_at or None,
        "created_at": token.created_at,
        "created_by": token.created_by,
    }


@serves(LIST_TOKENS)
async def list_tokens(call: ServerCall) -> Response:
    """List tokens without what they are."""
    tokens = await call.read(ListTokens())
    return Response(TokenPage(tokens=tuple(TokenRow(**_row(token)) for token in tokens), next_cursor=None))


@serves(DELETE_TOKEN)
async def delete_token(call: ServerCall) -> Response:
    """Delete a token; it opens nothing from now on."""
    gone = await call.apply(DeleteToken(token_id=call.path["token_id"], actor=call.actor))
    call.server.access.forget()
    audit.record(
        "token_deleted",
        who=call.actor,
        token_id=gone.token_id,
        token_name=gone.name,
        role=gone.role,
        namespace=gone.namespace,
        request_id=call.request_id,
    )
    return Response("Deleted")


@serves(ROTATE)
async def rotate(call: ServerCall) -> Response:
    """Sign waitpoint tokens with a new secret; older tokens stay good for the grace that is configured."""
    form: RotateBody = call.body
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
        "waitpoint_hmac_rotation_complete",
        who=call.actor,
        new_kid=form.new_kid,
        total_partitions=partitions,
        rotated=partitions,
        failed_count=0,
        request_id=call.request_id,
    )
    return Response(RotatedView(rotated=partitions, failed=[], in_progress=[], new_kid=form.new_kid))


async def _rotate(call: ServerCall, form: RotateBody) -> None:
    command = RotateSecret(
        new_kid=form.new_kid,
        new_secret_hex=form.new_secret_hex.lower(),
        grace_ms=min(call.server.settings.hmac_grace_ms, MAX_INT),
        actor=call.actor,
    )
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
