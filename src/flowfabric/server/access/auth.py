"""Who is let in: the administrator's token, the stored ones, and the machine itself while there is none."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import time
from functools import lru_cache
from typing import Final

from flowfabric.model.operations.access import ListTokens
from flowfabric.model.records import AccessToken
from flowfabric.server.access.roles import ANYBODY, Principal
from flowfabric.storage.base import Upkeep
from flowfabric.wire.errors import HttpError
from flowfabric.wire.rights import Right, Role, who_may

NO_TOKEN: Final = "missing or invalid Authorization header"  # noqa: S105 - a message
WRONG_HOST: Final = (
    "while no token is set, the Host header must name this machine (localhost, 127.0.0.1 or [::1]); "
    "set FF_API_TOKEN to serve other names"
)
CACHE_SECONDS: Final = 1.0
"""How long a server may go on with tokens that another one has deleted."""
ADMINISTRATOR: Final = Principal("admin", Role.ADMIN)
_ROLES: Final = frozenset(role.value for role in Role)
_BEARER: Final = b"Bearer "
_PREFIX: Final = "ff_"


def new_token() -> str:
    """Return a fresh token: 256 random bits, marked so that scanners for leaked secrets know it."""
    return _PREFIX + secrets.token_urlsafe(32)


def digest(token: bytes) -> str:
    """Return what is stored of a token. It is random and long, so that one plain hash keeps it secret."""
    return hashlib.sha256(token).hexdigest()


class Access:
    """The door of one server."""

    def __init__(
        self, store: Upkeep, api_token: str = "", *, any_host: bool = False, public_url: str = ""
    ) -> None:
        self._store = store
        self._api_digest = digest(api_token.encode()) if api_token else ""
        self._any_host = any_host
        self._public_host = _host_of(public_url)
        self._tokens: dict[str, AccessToken] = {}
        self._fresh_until = float("-inf")
        self._generation = 0
        self._reading = asyncio.Lock()
        self.changed = asyncio.Event()
        """Set when this server has changed the tokens."""

    @property
    def closed(self) -> bool:
        """Whether a token is asked for at all."""
        return bool(self._api_digest)

    async def admit(self, headers: dict[bytes, bytes], right: Right | None) -> Principal:
        """Say who asks; refuse whom nobody knows. Whether a path exists is told to those inside only."""
        if not self._api_digest:
            self._check_host(headers.get(b"host", b""))
            return ANYBODY
        if right is Right.NOTHING:
            return ANYBODY
        return await self._principal(headers.get(b"authorization", b""))

    def forget(self) -> None:
        """Drop what was read: this server has changed the tokens."""
        self._generation += 1
        self._fresh_until = float("-inf")
        self.changed.set()

    async def _principal(self, header: bytes) -> Principal:
        if header.startswith(_BEARER):
            # Digests are compared, not tokens: whatever the time tells is about a value that nobody can steer.
            given = digest(header[len(_BEARER) :])
            if hmac.compare_digest(given, self._api_digest):
                return ADMINISTRATOR
            token = (await self._known()).get(given)
            if token is not None and self._lives(token):
                return Principal(token.name, Role(token.role), token.namespace, token.token_id)
        raise HttpError(401, NO_TOKEN, "unauthorized", kind="unauthorized")

    def _lives(self, token: AccessToken) -> bool:
        return not 0 < token.expires_at <= self._store.now()

    async def living(self) -> frozenset[str]:
        """Return the ids of all tokens that open anything."""
        return frozenset(token.token_id for token in (await self._known()).values() if self._lives(token))

    async def _known(self) -> dict[str, AccessToken]:
        """Return the tokens by their digests, as they were a moment ago."""
        if time.monotonic() >= self._fresh_until:
            await self._refresh()
        return self._tokens

    async def _refresh(self) -> None:
        async with self._reading:
            if time.monotonic() < self._fresh_until:
                return
            generation, begun = self._generation, time.monotonic()
            tokens = await self._store.read(ListTokens())
            # A role that a newer version knows opens nothing here.
            known = {token.digest: token for token in tokens if token.role in _ROLES}
            self._tokens = known
            if generation == self._generation:
                self._fresh_until = begun + CACHE_SECONDS

    def _check_host(self, host: bytes) -> None:
        # Browsers always send it. This keeps pages that had their name rebound to this machine away from it.
        if self._any_host or not host:
            return
        name = _name_of(host)
        if not _is_loopback(name) and name != self._public_host:
            raise HttpError(403, WRONG_HOST, "forbidden", kind="forbidden")


def authorize(principal: Principal, right: Right | None) -> None:
    """Refuse whose role does not open the route."""
    if right is not None and not principal.may(right):
        text = f"a token of role {principal.role} may not do this; a token of one of these roles may: {who_may(right)}"
        raise HttpError(403, text, "forbidden", kind="forbidden")


def _host_of(url: str) -> str:
    return _name_of(url.partition("://")[2].partition("/")[0].encode()) if url else ""


@lru_cache(maxsize=256)
def _name_of(host: bytes) -> str:
    text = host.decode("latin-1").strip().lower()
    name = text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]
    return name.rstrip(".")


@lru_cache(maxsize=256)
def _is_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
