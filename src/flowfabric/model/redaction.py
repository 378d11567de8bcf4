"""Showing a struct without its secrets.

`repr` is not the only way in which a struct shows itself: tracebacks and consoles built on rich ask for
`__rich_repr__`, which msgspec answers with every field. A struct that holds a secret defines both with these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

HIDDEN: Final = "<REDACTED>"


def shown(value: Struct, *hidden: str) -> Iterator[tuple[str, object]]:
    """Yield every field by name, secrets hidden."""
    for field in value.__struct_fields__:
        yield field, HIDDEN if field in hidden else getattr(value, field)


def shown_text(value: Struct, *hidden: str) -> str:
    """Write a struct as `repr` does, secrets hidden."""
    fields = ", ".join(
        f"{field}={HIDDEN}" if field in hidden else f"{field}={content!r}"
        for field, content in shown(value, *hidden)
    )
    return f"{type(value).__name__}({fields})"
