"""Delivering a signal that arrives from outside with a token, for webhooks and approval pages of your own."""

from __future__ import annotations

import hmac
from typing import Any

from flowfabric.model.errors import NotFound, Unauthorized
from flowfabric.model.operations.signal import DeliverSignal, SignalAccepted, SignalDuplicate
from flowfabric.model.operations.suspend_waitpoint import ReadToken
from flowfabric.storage.base import Commands
from flowfabric.storage.minting import new_uuid


class UnknownWaitpoint(NotFound):
    """No open waitpoint has this id; answer 404."""

    code = "unknown_waitpoint"
    message = "no open waitpoint has this id"


class TokenMismatch(Unauthorized):
    """The presented token is not that of the waitpoint; answer 401."""

    code = "token_mismatch"
    message = "the presented token is not the one of this waitpoint"


async def verify_and_deliver(
    store: Commands,
    execution_id: str,
    waitpoint_id: str,
    presented: str,
    signal_name: str,
    payload: bytes = b"",
    **options: Any,
) -> SignalAccepted | SignalDuplicate:
    """Verify a presented token in constant time, and deliver the signal with it.

    Further options are fields of `DeliverSignal`, such as `idempotency_key` and `source_identity`.
    """
    try:
        stored = await store.read(ReadToken(execution_id=execution_id, waitpoint_id=waitpoint_id))
    except NotFound:  # an unknown execution has no waitpoints
        stored = None
    if stored is None:
        raise UnknownWaitpoint(field="waitpoint_id")
    # A presented token may contain half of a surrogate pair.
    if not hmac.compare_digest(stored.encode(), presented.encode(errors="surrogatepass")):
        raise TokenMismatch(field="waitpoint_token")
    return await store.apply(
        DeliverSignal(
            execution_id=execution_id,
            waitpoint_id=waitpoint_id,
            waitpoint_token=presented,
            signal_id=new_uuid(),
            signal_name=signal_name,
            payload=payload,
            **options,
        )
    )
