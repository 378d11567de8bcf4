"""Install the waitpoint secret of a new store.

The first program that opens a store installs the secret, whether it is a server, a worker, `ff` or your own. It is the
value of `FF_WAITPOINT_HMAC_SECRET`, or a random one. It stays in use until it is rotated.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
from typing import Final

from flowfabric.model.errors import FlowFabricError, InvalidInput, StoreUnusable, invalid
from flowfabric.model.operations.access_secret import ListKids, RotateSecret, SeedSecret
from flowfabric.model.tokens import SEED_SECRET_LENGTH, AlreadySeeded
from flowfabric.storage.base import Upkeep

FIRST_KID: Final = "k1"
"""Name of the waitpoint secret that a new store is given."""
VARIABLE: Final = "FF_WAITPOINT_HMAC_SECRET"
TRIES: Final = 5
_HEX: Final = re.compile(r"([0-9a-fA-F]{2})+")

log = logging.getLogger("flowfabric.storage")


async def seed(store: Upkeep, secret_hex: str = "") -> bool:
    """Install a secret if the store has none; a stored one is never replaced.

    Return False if `secret_hex` was given and differs from the stored one.
    """
    if not secret_hex:
        if (await store.read(ListKids())).current_kid is None:
            fresh = secrets.token_hex(SEED_SECRET_LENGTH // 2)
            await store.apply(SeedSecret(kid=FIRST_KID, secret_hex=fresh))
        return True
    for _ in range(TRIES):
        kid = (await store.read(ListKids())).current_kid or FIRST_KID
        try:
            same = await _same_secret(store, kid, secret_hex)
        except InvalidInput:
            continue  # rotated since we looked: compare with the new one
        except StoreUnusable:
            return True  # it can only be read: nothing is installed, and nothing compared
        if not same:
            log.warning(
                "%s differs from the stored secret (kid=%s, mismatched_partitions=%d, total_partitions=%d); the "
                "stored one stays in use. Rotate with POST /v1/admin/rotate-waitpoint-secret",
                VARIABLE,
                kid,
                store.partitions.flow,
                store.partitions.flow,
            )
        return same
    log.warning("the waitpoint secret is being rotated by somebody else; the stored one stays in use")
    return False


def secret_from_environment() -> str:
    """Return the secret that `FF_WAITPOINT_HMAC_SECRET` holds, or empty text; refuse one that is malformed."""
    text = os.environ.get(VARIABLE, "")
    if text and not _HEX.fullmatch(text):
        raise invalid(
            VARIABLE, "expected an even number of hex digits, for example from `openssl rand -hex 32`"
        )
    return text.lower()


async def _same_secret(store: Upkeep, kid: str, secret_hex: str) -> bool:
    if len(secret_hex) == SEED_SECRET_LENGTH:
        reply = await store.apply(SeedSecret(kid=kid, secret_hex=secret_hex))
        return not isinstance(reply, AlreadySeeded) or reply.same_secret
    # Seeding takes the advised length only. To rotate to the current key changes nothing if the secret is the same.
    try:
        await store.apply(RotateSecret(new_kid=kid, new_secret_hex=secret_hex, grace_ms=0))
    except FlowFabricError as error:
        if error.code != "rotation_conflict":
            raise
        return False
    return True
