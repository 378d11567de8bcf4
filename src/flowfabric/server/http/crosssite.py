"""Requests that a page of another site makes a browser send: they may change nothing here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from flowfabric.wire.errors import HttpError

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
FRIENDLY: Final = frozenset({b"same-origin", b"same-site", b"none"})
"""What a browser says of requests that no other site began."""
OPAQUE: Final = b"null"
"""The origin of a page that hides it, as those of approval links do."""
REFUSED: Final = (
    "a page of another site may not do this; name its origin in FF_CORS_ORIGINS if it may use this server"
)


class CrossSite:
    """Keeps other sites from using the browser of somebody who reaches this server."""

    def __init__(self, cors_origins: Iterable[str], public_url: str) -> None:
        self._allowed = frozenset(origin.encode() for origin in cors_origins)
        scheme, _, rest = public_url.lower().partition("://")
        self._public = f"{scheme}://{rest.partition('/')[0]}".encode()

    def check(self, method: str, headers: Iterable[tuple[bytes, bytes]], *, own_page: bool = False) -> None:
        """Refuse a request that changes something in the name of another site. Programs send neither header.

        `own_page`: it belongs to a page of ours that hides its origin. Browsers tell the site only to servers that are
        reached over TLS or on their own machine, so that such a request may have nothing but a hidden origin.
        """
        if method in SAFE or b"*" in self._allowed:
            return
        origins, sites, hosts = ([v.strip() for n, v in headers if n == name] for name in _HEADERS)
        if origins and self._allowed.issuperset(origins):
            return
        hidden = all(site == b"same-origin" for site in sites) if sites else own_page
        ours = all(self._own(origin, hosts, hidden=hidden) for origin in origins)
        if not ours or not FRIENDLY.issuperset(sites):
            raise HttpError(403, REFUSED, "forbidden")

    def _own(self, origin: bytes, hosts: list[bytes], *, hidden: bool) -> bool:
        if origin == OPAQUE:
            return hidden
        scheme, _, host = origin.lower().partition(b"://")
        if scheme not in {b"http", b"https"} or not host:
            return False
        return origin.lower() == self._public or host in {name.lower() for name in hosts}


_HEADERS: Final = (b"origin", b"sec-fetch-site", b"host")
