"""Writes the reference of the Python API: a page for each room, from signatures and docstrings."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pytest_flowfabric
from flowfabric import errors
from tools.api_rooms import FIRST, HIDDEN, ROOMS, SHARED, TWINS, Room
from tools.docstrings import docstring, first_sentence, markdown, one_line
from tools.members import Attribute, Method, attributes, methods, signature


class Entry(NamedTuple):
    """One public name."""

    room: Room
    module: str
    name: str
    thing: Any
    made: bool
    """Whether users call it to make one."""


@functools.cache
def entries() -> dict[str, Entry]:
    """Return every name that has a place in the reference."""
    found = {}
    for room in ROOMS:
        for module, names in room.names.items():
            for written in names:
                name = written.removesuffix("()")
                thing = getattr(importlib.import_module(module), name)
                found[name] = Entry(room, module, name, thing, written.endswith("()"))
    return found


def note_of(entry: Entry) -> str:
    """Return what is said about a public name, wherever its kind of thing has it."""
    if inspect.isclass(entry.thing) or inspect.isfunction(entry.thing):
        return docstring(entry.thing)
    return NOTES[entry.name]


NOTES: Final = {
    "Duration": "A time span: a number of seconds, a `timedelta`, or text such as `500ms`, `30s`, `2m`, `1h30m`, `1d`.",
    "provided": "Stands as the default of a parameter that callers do not give, because the worker does: see"
    " `FlowFabric.provide`.",
}
"""Values have no docstrings."""


# Pages.


def index() -> str:
    """Write the list of all names."""
    intro = "Everything public, from the docstrings. What stands in no list here may change at any time.\n"
    lines = [intro]
    for room in ROOMS:
        lines.append(f"## [{room.title}](api/{room.file}.md)\n")
        here = [entry for entry in entries().values() if entry.room is room]
        for entry in here:
            said = one_line(first_sentence(note_of(entry)))
            lines.append(f"- [`{entry.name}`](api/{room.file}.md#{entry.name.lower()}): {said}")
        lines.append("")
    return "\n".join(lines)


def page(room: Room) -> str:
    """Write one page."""
    here = [entry for entry in entries().values() if entry.room is room]
    parts = [f"{room.about}\n", *(_entry(entry) for entry in here)]
    if room.file == "testing":
        parts.append(_fixtures())
    return "\n".join(parts)


def _entry(entry: Entry) -> str:
    link = _links(entry)
    parts = [f"## {entry.name}\n", f"`from {entry.module} import {entry.name}`\n"]
    if inspect.isfunction(entry.thing):
        parts.append(_code(signature(entry.thing)))
    if entry.made:
        parts.append(_code(signature(entry.thing, entry.name)))
    parts.append(markdown(note_of(entry), link))
    if inspect.isclass(entry.thing):
        parts += _members(entry, link)
    return "\n".join(parts)


def _members(entry: Entry, link: Callable[[str], str]) -> Iterator[str]:
    base = entry.thing.__mro__[1].__name__
    if base in entries():
        yield markdown(f"It is a `{base}`.", link)
    if rows := shown_attributes(entry):
        yield _table(rows, link)
    own, inherited = shown_methods(entry)
    if entry.name in TWINS:
        yield markdown(f"As in `{TWINS[entry.name]}`:", link)
        yield _code("\n".join(method.signature for method in own))
        return
    for method in own:
        yield f"### {entry.name}.{method.name}\n"
        yield _code(method.signature)
        yield markdown(method.note, link)
    if inherited:
        names = ", ".join(
            f"`{SHARED.get(method.owner.__name__, method.owner.__name__)}.{method.name}`"
            for method in inherited
        )
        yield markdown(f"Besides: {names}.", link)


def shown_attributes(entry: Entry) -> list[Attribute]:
    """Return what a page tells of a class itself, without what a base has a place of its own for."""
    return [
        row
        for row in attributes(entry.thing)
        if row.name not in HIDDEN.get(entry.name, ())
        and (row.owner is entry.thing or row.owner.__name__ not in entries())
    ]


def shown_methods(entry: Entry) -> tuple[list[Method], list[Method]]:
    """Return the methods that a page explains, and those that are explained elsewhere."""
    hidden = HIDDEN.get(entry.name, set())
    found = [method for method in methods(entry.thing) if method.name not in hidden]
    own = [method for method in found if method.owner is entry.thing or entry.name == "FlowFabric"]
    known = {*entries(), *SHARED}
    inherited = [
        method for method in found if method not in own and method.owner.__name__ in known - {"Layer"}
    ]
    if entry.name == "FlowFabric":
        own.sort(key=lambda method: FIRST.index(method.name) if method.name in FIRST else len(FIRST))
    return own, inherited


def _table(rows: list[Attribute], link: Callable[[str], str]) -> str:
    lines = [["Name", "Type", ""], ["---"] * 3]
    for row in rows:
        cells = f"`{row.name}`", f"`{row.kind}`" if row.kind else "", one_line(row.note, link)
        lines.append([cell.replace("|", "\\|") for cell in cells])
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _fixtures() -> str:
    parts = ["## Fixtures of pytest\n", "The plugin is there as soon as FlowFabric is installed.\n"]
    for name, thing in vars(pytest_flowfabric).items():
        if type(thing).__name__ == "FixtureFunctionDefinition":
            parts.append(f"- `{name}`: {one_line(docstring(thing))}")
    return "\n".join(parts) + "\n"


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n"


def _links(entry: Entry) -> Callable[[str], str]:
    def link(name: str) -> str:
        plain, _, method = name.partition(".")
        found = entries().get(plain)
        if found is None and plain in vars(errors):
            return _family(getattr(errors, plain))
        if found is None or (found is entry and not method):
            return ""
        if method and method not in {each.name for each in methods(found.thing)}:
            return ""
        file = "" if found.room is entry.room else f"{found.room.file}.md"
        return f"{file}#{name.lower().replace('.', '')}"

    return link


def _family(kind: object) -> str:
    """Say where the family of an error is explained; nothing for what is no error."""
    base = errors.FlowFabricError
    if not (inspect.isclass(kind) and issubclass(kind, base)) or kind is base:
        return ""
    return f"../errors.md#{kind.__mro__[kind.__mro__.index(base) - 1].__name__.lower()}"
