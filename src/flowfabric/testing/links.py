"""Approval links of a lab: there is no server whose page they could be, so a test visits them itself."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

from flowfabric.model.errors import invalid

PAGE: Final = "https://lab.invalid/approve"


class Link(NamedTuple):
    """What a visit of a link does."""

    execution_id: str
    waitpoint_id: str
    signal_name: str
    expires_at: int
    to: str

    def written(self) -> str:
        """Write it as handlers get it."""
        return f"{PAGE}?{urlencode(self._asdict())}"


def read(text: str) -> Link:
    """Read a link that was made in a lab."""
    parts = urlsplit(text)
    if not text.startswith(f"{PAGE}?"):
        raise invalid("link", f"{text!r} was not made by ctx.approval_link in a lab")
    found = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
    return Link(**{**found, "expires_at": int(found["expires_at"])})  # type: ignore[arg-type]
