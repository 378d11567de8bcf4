"""The Lua library: header, generated tables, shared parts, operations, joined into one text.

Every file of `lua/` and `lua/operations/` is taken, in the order of its name, inside a function of its own, so that the
locals of one are not those of another. What they share is written `ff.name`, and becomes a local of all (near.py).
"""

from __future__ import annotations

import hashlib
import re
import sys
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from flowfabric.storage.valkey.lua.generated import default_texts, fields, tables
from flowfabric.storage.valkey.lua.near import SELDOM, defined, near
from flowfabric.storage.valkey.lua.packing import functions
from flowfabric.storage.valkey.lua.places import INSIDE, places, written_out

NAME: Final = "flowfabric"
VERSION: Final = 2
"""Of the functions, what they write, and what programs decide that use them.

It is raised whenever an older program must not go on beside a newer one: when records get fields that it would drop, or
the machine decides something else. An older program can neither replace a newer library nor commit through it."""

FOLDER: Final = Path(__file__).parent


_QUIET: Final = re.compile(r"(?<!function )ff\.quiet\((\w+)\)")
"""Asked so often that what it says is put in its place."""


_BEGINNING: Final = ";(function() -- "
"""What stands before the name of a file."""


class Library(NamedTuple):
    """The text to load, and the digest by which a loaded one is recognised."""

    code: str
    digest: str


def parts(folder: Path = FOLDER) -> list[Path]:
    """Return the files in the order in which they are joined: what is shared first."""
    return [*sorted(folder.glob("*.lua")), *sorted((folder / "operations").glob("*.lua"))]


@cache
def library(*, checked: bool = False) -> Library:
    """Build the library; `checked` is for tests: each access to a field makes sure of its record."""
    named = {**fields(), **INSIDE}
    defaults = default_texts() | {form: ["''"] * len(inside) for form, inside in INSIDE.items()}
    blocks = []
    far: set[str] = set()
    for path in _base_first(parts()):
        source = written_out(_QUIET.sub(r"(\1.rest < 2)", path.read_text(encoding="utf-8")), named, defaults)
        far |= defined(source) if path.stem in SELDOM else set()
        blocks.append(_block(path.relative_to(FOLDER).as_posix(), places(source, named, checked=checked)))
    blocks.insert(0, _block("generated tables", f"{tables()}\n"))
    blocks.append(
        _block("generated functions", f"{places(functions(checked=checked), named, checked=checked)}\n")
    )
    body = near("\n".join(blocks), far)
    digest = hashlib.sha256(body.encode()).hexdigest()[:16]
    head = f"#!lua name={NAME}\nlocal ff, LIBRARY_VERSION, DIGEST = {{}}, {VERSION}, '{digest}'\n"
    return Library(f"{head}{body}\n", digest)


def _block(name: str, source: str) -> str:
    """Make a function of a file: its locals are its own, and do not count among those of the library."""
    return f"{_BEGINNING}{name}\n{source}end)()"


def source_of(line: int) -> str:
    """Say which file and line of the sources a line of the library comes from."""
    lines = library().code.splitlines()
    for at in range(min(line, len(lines)) - 1, -1, -1):
        if lines[at].startswith(_BEGINNING):
            return f"{lines[at].removeprefix(_BEGINNING)}:{line - at - 1}"
    return f"line {line} of the library"


def _base_first(paths: list[Path]) -> list[Path]:
    """Put first what others need while the library loads: `ff.operation` and `ff.forms`."""
    return sorted(paths, key=lambda path: path.stem not in {"run", "records"})


if __name__ == "__main__":  # python -m flowfabric.storage.valkey.lua.library PATH
    Path(sys.argv[1]).write_text(library().code, encoding="utf-8")
