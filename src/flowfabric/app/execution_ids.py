"""Execution ids as people write them: whole, as a bare UUID, or as the beginning of that."""

from __future__ import annotations

from typing import Final

from flowfabric.model.contracts.reads import FindExecutions
from flowfabric.model.errors import invalid, refuse
from flowfabric.model.ids import SHORTEST_PREFIX, parse_execution_id
from flowfabric.storage.base import Commands

LISTED: Final = 10
"""So many executions are named when what was given is short for several."""
_GROUPS: Final = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))


def is_whole(text: str) -> bool:
    """Tell a whole id, `{fp:24}:<uuid>`, from a shortened one."""
    return text.startswith("{")


async def resolve_execution(store: Commands, text: str) -> str:
    """Return the whole id that a whole id, a UUID, or the beginning of a UUID stands for.

    Raises `InvalidInput` when it is no id or stands for several executions, and `NotFound` when it stands for none.
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
    """Spell the beginning of a UUID as stored ids do: in lower case, with its hyphens."""
    digits = text.strip().lower().replace("-", "")
    if not SHORTEST_PREFIX <= len(digits) <= 32 or set(digits) - set("0123456789abcdef"):
        raise invalid(
            "id",
            f"{text!r} is no id of an execution; give all of it, its UUID, or the first {SHORTEST_PREFIX} digits "
            "or more of that",
        )
    return "-".join(filter(None, (digits[start:end] for start, end in _GROUPS)))
