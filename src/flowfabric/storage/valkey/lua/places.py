"""Fields by place: `run.lane_id` in the sources becomes `run[4]` in the library, and so do the fields of new records.

Looking a name up costs the server more than the work that is done with it, so names end here. The name of a variable
says what it holds: one that is called `run` is an execution, everywhere, and `command` is what the operation is
registered for in which it stands. A field that the record does not have stops the build. Variables of other names keep
their names and are looked up when they run (records.lua). A new record that is written out,
`ff.new('Memo', {value = x})`, becomes the array that it makes, with the defaults of the Python class in the places that
were not given; one that has no default must be given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

Fields = Mapping[str, Sequence[str]]
"""The fields of each form, in their places."""

HOLDS: Final = {
    "run": "Execution",
    "begun": "Execution",
    "moved": "Execution",
    "ended": "Execution",
    "aside": "Execution",
    "retried": "Execution",
    "delayed": "Execution",
    "leased": "Execution",
    "attempt": "Attempt",
    "policy": "Policy",
    "grant": "Grant",
    "stream": "Stream",
    "frame": "Frame",
    "sent": "FrameInput",
    "suspension": "Suspension",
    "waitpoint": "Waitpoint",
    "worker": "Worker",
    "claim": "Claim",
    "holding": "HolderCommand",
    "fence": "Fence",
    "space": "Space",
    "self": "Space",
    "case": "Case",
    "lease": "Lease",
    "sight": "Sight",
    "old_run": "Execution",
    "new_run": "Execution",
}
"""What a variable of this name holds."""
WITHIN: Final = {("Execution", "attempt"): "Attempt", ("Execution", "policy"): "Policy"}
"""Records inside records."""

INSIDE: Final[Fields] = {
    "Space": (
        "call",
        "now",
        "keys",
        "numbers",
        "chance",
        "heads",
        "cases",
        "order",
        "ordered",
        "events",
        "told",
        "effects",
        "emitted",
        "staged",
        "places",
    ),
    "Lease": ("worker_id", "worker_instance_id", "lease_id", "ttl_ms", "claim_id", "reason"),
    "Case": ("id", "run", "arrival", "told", "staged", "input", "policy", "packed", "hot", "rest"),
}
"""Tables of Lua itself that are made for every command (space.lua)."""
PLAIN: Final = frozenset({"Fence", *INSIDE})
"""Arrays that do not know what they are."""

_COMMAND: Final = re.compile(r"ff\.operation\('\w+', '(\w+)'")
_TOKEN: Final = re.compile(r"(--[^\n]*|'(?:[^'\\\n]|\\.)*')|(?<![\w.:])([a-z_]+)((?:\.[a-z_]+)+)(?!\w)")


_NEW: Final = re.compile(r"ff\.new\('(\w+)', \{")
_PART: Final = re.compile(r"--[^\n]*|'(?:[^'\\\n]|\\.)*'|[^'\-]|-")
_GIVEN: Final = re.compile(r"\s*([a-z_]+) = (.+?)\s*", re.DOTALL)


class UnknownField(Exception):
    """A source names a field that its record does not have, or does not give one that it must have."""


def written_out(source: str, fields: Fields, defaults: Mapping[str, Sequence[str]]) -> str:
    """Write new records as arrays; defaults are Lua text, `nil` where there is none."""
    parts: list[str] = []
    done = 0
    while (found := _NEW.search(source, done)) is not None:
        form = found[1]
        given, end = _given(source, found.end())
        if unknown := given.keys() - set(fields[form]):
            raise UnknownField(f"a new {form} has no {', '.join(sorted(unknown))}")
        values = [
            given.get(name, default) for name, default in zip(fields[form], defaults[form], strict=True)
        ]
        if "nil" in values:
            raise UnknownField(f"a new {form} must have {fields[form][values.index('nil')]}")
        array = f"{{{', '.join(values)}}}"
        array += "\n" * (
            source.count("\n", found.start(), end) - array.count("\n")
        )  # lines keep their numbers
        parts += [source[done : found.start()], f"({array}" if form in PLAIN else f"ff.as('{form}', {array}"]
        done = end
    return "".join([*parts, source[done:]])


def _given(source: str, start: int) -> tuple[dict[str, str], int]:
    """Read `name = value, ...}` from a place on; return the values, and the place after the brace."""
    given: dict[str, str] = {}
    depth, part = 0, ""
    for token in _PART.finditer(source, start):
        text = token[0]
        if depth == 0 and text in {",", "}"}:
            if (field := _GIVEN.fullmatch(part)) is not None:
                given[field[1]] = f"({field[2]})"  # one value, also where a function returns several
            elif part.strip():
                raise UnknownField(f"not a field of a new record: {part.strip()}")
            if text == "}":
                return given, token.end()
            part = ""
            continue
        depth += (text in {"(", "[", "{"}) - (text in {")", "]", "}"})
        if not text.startswith("--"):
            part += text
    raise UnknownField("a new record has no end")


def places(source: str, fields: Fields, *, checked: bool = False) -> str:
    """Put places for names; `checked` lets each access make sure of what the variable holds, for tests."""
    registered = list(_COMMAND.finditer(source))
    starts = [0, *(found.start() for found in registered[1:])]
    ends = [*starts[1:], len(source)]
    kinds = [found[1] for found in registered] or [""]
    return "".join(
        _part_places(
            source[start:end], {**HOLDS, "command": kind} if kind else HOLDS, fields, checked=checked
        )
        for start, end, kind in zip(starts, ends, kinds, strict=True)
    )


def _part_places(source: str, holds: Mapping[str, str], fields: Fields, *, checked: bool) -> str:
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
        known = f"ff.known({text}, '{inner}')" if checked and inner not in PLAIN else text
        text = f"{known}[{fields[inner].index(field) + 1}]"
        inner = WITHIN.get((inner, field))
    return ".".join([text, *rest])
