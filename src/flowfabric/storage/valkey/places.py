"""Fields by place: `run.lane_id` in the sources becomes `run[4]` in the library.

Looking a name up costs the server more than the work that is done with it, so names end here. The name of a variable
says what it holds: one that is called `run` is an execution, everywhere, and `command` is what its file is registered
for. A field that the record does not have stops the build. Variables of other names keep their names and are looked up
when they run (records.lua).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

Fields = Mapping[str, Sequence[str]]
"""The fields of each form, in their places."""

HOLDS: Final = {
    "run": "Execution", "begun": "Execution", "moved": "Execution", "ended": "Execution", "aside": "Execution",
    "retried": "Execution", "attempt": "Attempt", "policy": "Policy", "grant": "Grant", "stream": "Stream",
    "frame": "Frame", "sent": "FrameInput", "suspension": "Suspension", "waitpoint": "Waitpoint",
}  # fmt: skip
"""What a variable of this name holds."""
WITHIN: Final = {("Execution", "attempt"): "Attempt", ("Execution", "policy"): "Policy"}
"""Records inside records."""

_COMMAND: Final = re.compile(r"ff\.operation\('\w+', '(\w+)'")
_TOKEN: Final = re.compile(r"(--[^\n]*|'(?:[^'\\\n]|\\.)*')|(?<![\w.:])([a-z_]+)((?:\.[a-z_]+)+)(?!\w)")


class UnknownField(Exception):
    """A source names a field that its record does not have."""


def places(source: str, fields: Fields, *, checked: bool = False) -> str:
    """Put places for names; `checked` lets each access make sure of what the variable holds, for tests."""
    holds = dict(HOLDS)
    command = _COMMAND.search(source)
    if command is not None:
        holds["command"] = command[1]

    def put(found: re.Match[str]) -> str:
        aside, name, path = found.groups()
        if aside is not None or name not in holds:
            return found[0]
        return _access(name, path[1:].split("."), holds[name], fields, checked=checked)

    return _TOKEN.sub(put, source)


def _access(name: str, path: list[str], form: str, fields: Fields, *, checked: bool) -> str:
    text, rest = name, path
    inner: str | None = form
    while inner is not None and rest:
        field, *rest = rest
        if field not in fields[inner]:
            raise UnknownField(f"{name}.{'.'.join(path)}: a {inner} has no field {field}")
        known = f"ff.known({text}, '{inner}')" if checked else text
        text = f"{known}[{fields[inner].index(field) + 1}]"
        inner = WITHIN.get((inner, field))
    return ".".join([text, *rest])
