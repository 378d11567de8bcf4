"""Shared names become locals: `ff.move` in the sources is `ff_move` in the library, and `redis.call` is `redis_call`.

A function of the server looks names up in tables each time, and the lines of memory that this touches cost more than
what is done with them; a local of the library is at hand. While a library loads most functions of the server do not
exist yet, so each of their locals is a function that puts the real one in its own place when it is first called.

Lua allows 200 locals, so what is shared by files that no task needs every time stays in a table.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

LOCALS: Final = 190
"""Lua allows 200 in one chunk, and a few have other names."""

HOST: Final = re.compile(r"(?:redis\.call|(?:cmsgpack|string|math|table|struct|bit)\.[a-z_]+)(?=\()")
PLAIN: Final = re.compile(
    r"(?:error|getmetatable|ipairs|next|pairs|pcall|rawget|rawset|setmetatable|tonumber|tostring|type|unpack)(?=\()"
)
SHARED: Final = re.compile(r"ff\.\w+")

_TOKEN: Final = re.compile(
    rf"(--[^\n]*|'(?:[^'\\\n]|\\.)*')|(?<![\w.:])({HOST.pattern}|{PLAIN.pattern}|{SHARED.pattern})"
)


SELDOM: Final = frozenset({"cluster", "commit", "mending"})
"""Files whose shared names stay in the table `ff`."""
_DEFINED: Final = re.compile(r"^(?:function (?=ff\.\w+\()|(?=ff\.\w+ =))ff\.(\w+)", re.MULTILINE)


class TooManyLocals(Exception):
    """The library has more shared names than a chunk of Lua may have locals."""


def defined(source: str) -> set[str]:
    """Return the shared names that a file defines."""
    return {f"ff.{name}" for name in _DEFINED.findall(source)}


def near(body: str, far: Collection[str] = ()) -> str:
    """Put a local for each shared name that is not `far`, and for each function of the server that is called."""
    found: dict[str, str] = {}

    def put(token: re.Match[str]) -> str:
        aside, name = token.groups()
        if aside is not None or name in far:
            return token[0]
        local = f"near_{name}" if "." not in name else name.replace(".", "_")
        found[local] = name
        return local

    named = _TOKEN.sub(put, body)
    if len(found) > LOCALS:
        raise TooManyLocals(f"{len(found)} shared names in the Lua library, {LOCALS} are allowed")
    return "\n".join([*(_declared(local, name) for local, name in sorted(found.items())), named])


def _declared(local: str, name: str) -> str:
    if name.startswith("ff."):
        return f"local {local}"
    return f"local {local} {local} = function(...) {local} = {name} return {local}(...) end"
