"""The Lua library: header, generated tables, shared parts, operations, joined into one text.

Every file of `lua/` and `lua/operations/` is taken, in the order of its name, inside a block of its own, so that the
locals of one are not those of another. Shared functions hang on the one table `ff`.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from flowfabric.storage.valkey.generated import default_texts, fields, tables
from flowfabric.storage.valkey.places import places, written_out

NAME: Final = "flowfabric"
VERSION: Final = 1
"""Of the functions and what they write; raised when an older program must not replace a newer library."""

FOLDER: Final = Path(__file__).parent / "lua"


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
    named, defaults = fields(), default_texts()
    blocks = []
    for path in _base_first(parts()):
        source = written_out(path.read_text(encoding="utf-8"), named, defaults)
        blocks.append(f"do -- {path.name}\n{places(source, named, checked=checked)}end")
    body = "\n".join([tables(), *blocks])
    digest = hashlib.sha256(body.encode()).hexdigest()[:16]
    head = f"#!lua name={NAME}\nlocal ff = {{}}\nff.LIBRARY_VERSION = {VERSION}\nff.DIGEST = '{digest}'\n"
    return Library(f"{head}{body}\n", digest)


def _base_first(paths: list[Path]) -> list[Path]:
    """Put first what others need while the library loads: `ff.operation` and `ff.forms`."""
    return sorted(paths, key=lambda path: path.stem not in {"run", "records"})
