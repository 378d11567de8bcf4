"""Where the server is, and the token that opens it: read from a URL, and never shown again."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from flowfabric.model.errors import invalid
from flowfabric.model.redaction import hide, shown, shown_text

SCHEMES = ("http", "https")


class Address(Struct, frozen=True):
    """A server and how to be let in. The token is a secret: `repr` hides it."""

    base: str
    """Scheme, host, port and the path that the routes stand under, without a slash at the end."""
    token: str = ""

    def __repr__(self) -> str:
        return shown_text(self, token=hide)

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]
        return shown(self, token=hide)


def read_address(url: str, token: str = "") -> Address:
    """Read `http://host:port`, or `http://:token@host:port`; a token that is given besides counts more."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise invalid("url", "is not a URL; write http://host:port") from error
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise invalid("url", "write http://host:port or https://host:port")
    if parts.query or parts.fragment:
        raise invalid("url", "must not have a query or a fragment")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = f"{host}:{port}" if port is not None else host
    given = token or unquote(parts.password or parts.username or "")
    if not given.isascii() or not given.isprintable():
        raise invalid("token", "must be printable ASCII")
    return Address(f"{parts.scheme}://{place}{parts.path.rstrip('/')}", given)
