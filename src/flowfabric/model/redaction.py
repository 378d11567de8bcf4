"""Showing a struct without its secrets.

`repr` is not the only way in which a struct shows itself: tracebacks and consoles built on rich ask for
`__rich_repr__`, which msgspec answers with every field. A struct that holds a secret defines both with these,
and says for each secret field how it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

from flowfabric.model.limits import MAX_NAME_BYTES

MALFORMED: Final = "<REDACTED:malformed>"

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def hide(_: object) -> str:
    """Show nothing of a secret."""
    return "<REDACTED>"


def redact(token: str) -> str:
    """Show which key signed a waitpoint token and nothing else of it."""
    kid, colon, digest = token.partition(":")
    if not colon or kid_problem(kid):
        return MALFORMED
    return f"{kid}:<REDACTED:len={len(digest)}>"


def kid_problem(kid: str) -> bool:
    """Whether a key's name is unusable: names are shown, so they neither break a line nor fill a page."""
    return not kid or ":" in kid or bool(_CONTROL.search(kid)) or len(kid.encode()) > MAX_NAME_BYTES


def shown(value: Struct, /, **secrets: Callable[[Any], str]) -> Iterator[tuple[str, object]]:
    """Yield every field by name, secrets as they may be seen."""
    for field in value.__struct_fields__:
        content = getattr(value, field)
        yield field, secrets[field](content) if field in secrets else content


def shown_text(value: Struct, /, **secrets: Callable[[Any], str]) -> str:
    """Write a struct as `repr` does, secrets as they may be seen."""
    fields = (
        f"{field}={content}" if field in secrets else f"{field}={content!r}"
        for field, content in shown(value, **secrets)
    )
    return f"{type(value).__name__}({', '.join(fields)})"
