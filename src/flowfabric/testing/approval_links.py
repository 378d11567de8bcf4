"""Approval links of a lab, which has no server with approval pages: `Lab.visit` follows them."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec

from flowfabric.model.errors import invalid
from flowfabric.model.operations.access import LinkRequest

PAGE: Final = "https://lab.invalid/approve"


def link_url(link: LinkRequest) -> str:
    """Return the URL of a link."""
    fields = {name: getattr(link, name) for name in link.__struct_fields__}
    return f"{PAGE}?{urlencode(fields, doseq=True)}"


def parse_link(text: str) -> LinkRequest:
    """Parse the URL of a link that was made in a lab."""
    if not text.startswith(f"{PAGE}?"):
        raise invalid("link", f"{text!r} was not made by ctx.approval_link in a lab")
    found = parse_qs(urlsplit(text).query, keep_blank_values=True)
    names = tuple(found.pop("signal_names"))
    one = {name: values[0] for name, values in found.items()}
    return msgspec.convert({**one, "signal_names": names}, LinkRequest, strict=False)
