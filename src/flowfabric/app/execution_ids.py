"""Execution ids as people write them: complete, as a bare UUID, or as the beginning of one."""

from __future__ import annotations

from typing import Final

from flowfabric.model.errors import invalid, refuse
from flowfabric.model.ids import SHORTEST_PREFIX, parse_execution_id
from flowfabric.model.operations.read_list import FindExecutions
from flowfabric.storage.base import Commands

LISTED: Final = 10
"""How many matches the refusal of an ambiguous id lists."""
_GROUPS: Final = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))


def is_whole(text: str) -> bool:
    """Return True for a complete id, `{fp:24}:<uuid>`, False for a shortened one."""
    return text.startswith("{")


async def resolve_execution(store: Commands, text: str) -> str:
    """Return the complete id of a complete id, a UUID, or the beginning of a UUID.

    Raises `InvalidInput` if the text is not an id or matches several executions, and `NotFound` if it matches none.
    """
    if is_whole(text):
        parse_execution_id(text)
        return text
    found = await store.read(FindExecutions(prefix=_prefix(text), limit=LISTED))
    if not found:
        raise refuse("execution_not_found", text=f"no execution has an id that begins with {text}")
    if len(found) > 1:
        more = ", …" if len(found) == LISTED else ""
        raise invalid(
            "id", f"{text} is short for several executions: {', '.join(found)}{more}; give more of it"
        )
    return found[0]


def _prefix(text: str) -> str:
    """Return the beginning of a UUID as it is stored: in lower case, with hyphens."""
    digits = text.strip().lower().replace("-", "")
    if not SHORTEST_PREFIX <= len(digits) <= 32 or set(digits) - set("0123456789abcdef"):
        raise invalid(
            "id",
            f"{text!r} is no id of an execution; give all of it, its UUID, or the first {SHORTEST_PREFIX} digits "
            "or more of that",
        )
    return "-".join(filter(None, (digits[start:end] for start, end in _GROUPS)))
