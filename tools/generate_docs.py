"""Writes docs/reference from the data that the engine runs on: `make docs`. A test fails when they differ."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from flowfabric.model import errors, state
from flowfabric.model.command import Command
from flowfabric.model.operations.catalog import AREAS, decidable
from flowfabric.model.transitions import NAMED, TRANSITIONS, Target, Transition
from flowfabric.server.http import openapi
from tools import api_pages
from tools.api_rooms import ROOMS, Room
from tools.cli_page import commands

FOLDER: Final = Path(__file__).parents[1] / "docs" / "reference"
NOTE: Final = "<!-- Written by `make docs` from the code; change the code instead. -->\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def code(values: Iterable[object]) -> str:
    """Write values as code, with commas between."""
    return ", ".join(f"`{value}`" for value in values)


def page(title: str, *parts: str) -> str:
    """Put a page together."""
    return "\n".join((NOTE, f"# {title}\n", *parts))


# States.


def states() -> str:
    """Write the page of dimensions, public states and legal combinations."""
    kinds: tuple[type[StrEnum], ...] = (
        state.Phase,
        state.Ownership,
        state.Eligibility,
        state.Blocking,
        state.Outcome,
        state.AttemptState,
    )
    dimensions = ((kind.__name__, inspect.getdoc(kind) or "", code(kind)) for kind in kinds)
    legal = (
        (
            f"`{row.phase}`",
            code(row.ownership),
            f"`{row.eligibility}`",
            code(row.blocking),
            code(row.outcome),
            code(row.attempt),
        )
        for row in state.LEGAL
    )
    return page(
        "States",
        "An execution stores six dimensions. Users see one word that follows from three of them.\n",
        "## Dimensions\n",
        table(("Dimension", "Says", "Values"), dimensions),
        "## Public states\n",
        table(("Public state", "Follows from"), _public_states()),
        "## Legal combinations\n",
        "Every combination of the alternatives in one line is legal, and no other.\n",
        table([field.capitalize() for field in state.LegalRow._fields], legal),
    )


def _public_states() -> Iterable[Sequence[str]]:
    sources: dict[state.Public, dict[str, None]] = {public: {} for public in state.Public}
    for row in state.LEGAL:
        for outcome in row.outcome:
            words = [f"`{row.phase}`"]
            if row.phase is state.Phase.RUNNABLE:
                words.append(f"`{row.eligibility}`")
            if row.phase is state.Phase.TERMINAL:
                words.append(f"`{outcome}`")
            public = state.public_state(row.phase, row.eligibility, outcome)
            sources[public][" and ".join(words)] = None
    return ((f"`{public}`", "; ".join(found)) for public, found in sources.items())


# Transitions.


def transitions() -> str:
    """Write the page of transitions."""
    rows = (
        (
            row.number,
            f"`{name}`",
            row.operation,
            _start(row),
            _target(row.to),
            f"`{row.event}`",
            f"`{row.attempt_life}`" if row.attempt_life else "",
            f"`{row.closes_stream}`" if row.closes_stream else "",
        )
        for name, row in NAMED.items()
    )
    head = ("No.", "Name", "Operation", "From", "To", "Event", "Attempt becomes", "Closes the stream as")
    return page(
        "Transitions",
        "Each row is one way in which an execution changes. The engine runs on these rows; a change that none of them"
        " allows is refused. A dimension that a target does not name stays as it is, or is said by the operation;"
        " `none` is not shown.\n",
        _diagram(),
        table(head, rows),
    )


def _start(row: Transition) -> str:
    if not row.before:
        return "nothing"
    parts = [code(row.before)]
    if len(row.owners) < len(state.Ownership):
        parts.append(code(row.owners))
    if len(row.eligible) < len(state.Eligibility):
        parts.append(code(row.eligible))
    return "; ".join(parts)


def _target(to: Target) -> str:
    return code(value for value in to if value not in {None, state.Outcome.NONE}) or "unchanged"


def _diagram() -> str:
    arrows: dict[tuple[str, str], list[str]] = {}
    for row in TRANSITIONS:
        for start in row.before or ("[*]",):
            end = row.to.phase or start
            if start != end:
                arrows.setdefault((str(start), str(end)), []).append(row.operation.replace(":", ""))
    lines = (f"    {start} --> {end}: {' / '.join(words)}\n" for (start, end), words in arrows.items())
    return "```mermaid\nstateDiagram-v2\n" + "".join(lines) + "```\n"


# Errors.


def error_codes() -> str:
    """Write the page of errors, family by family."""
    intro = (
        "One tree, `flowfabric.errors`. The family says what to do; the code says what happened. A call that was"
        " refused as `retryable` may succeed later without being changed.\n"
    )
    parts = [intro]
    families = [
        kind for kind in errors.FlowFabricError.__subclasses__() if kind.__module__ == errors.__name__
    ]
    for family in families:
        members = sorted(name for name, kind in errors.BY_CODE.items() if issubclass(kind, family))
        rows = (
            (f"`{name}`", str(errors.BY_CODE[name].severity), errors.BY_CODE[name].message)
            for name in members
        )
        parts += [
            f"## {family.__name__}\n",
            f"{inspect.getdoc(family)}\n",
            table(("Code", "Severity", "Message"), rows),
        ]
    return page("Errors", *parts)


# Operations.


class Field(NamedTuple):
    """A field of a command, as its source says."""

    name: str
    kind: str
    default: str
    note: str


def fields_of(kind: type) -> list[Field]:
    """Read the fields of a struct from its source, its own first and the inherited ones after."""
    found: dict[str, Field] = {}
    for base in kind.__mro__:
        if base.__module__.startswith(("flowfabric.model.operations", "flowfabric.model.command")):
            for field in _own_fields(base):
                found.setdefault(field.name, field)
    return list(found.values())


def _own_fields(kind: type) -> Iterable[Field]:
    body = _class_source(kind).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            note = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                note = " ".join(str(after.value.value).split())
            default = ast.unparse(node.value) if node.value else ""
            yield Field(node.target.id, ast.unparse(node.annotation), default, note)


def _class_source(kind: type) -> ast.ClassDef:
    node = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(node, ast.ClassDef)
    return node


def answer_of(kind: type) -> str:
    """Read what a command answers with from the brackets of its base."""
    for base in kind.__mro__:
        if base is Command:
            break
        for parent in _class_source(base).bases:
            if isinstance(parent, ast.Subscript) and ast.unparse(parent.slice) != "R_co":
                return ast.unparse(parent.slice).strip("'")
    return ""


def _operation(kind: type[Command[Any]]) -> str:
    rows = [
        (f"`{name}`", f"`{annotation}`", f"`{default}`" if default else "required", note)
        for name, annotation, default, note in fields_of(kind)
    ]
    return "\n".join(
        (
            f"### {kind.__name__}\n",
            f"{inspect.getdoc(kind)}\n",
            f"Answers `{answer_of(kind)}`.\n",
            table(("Field", "Type", "Default", ""), rows),
        )
    )


def operations() -> str:
    """Write the page of commands and questions."""
    kinds = decidable()
    intro = (
        "Everything that a store decides. A command is sent with `store.apply` or `store.apply_many`, a question with"
        " `store.read`. Every field is given by name; times are milliseconds, sizes are bytes.\n"
    )
    parts = [intro]
    for module in AREAS:
        here = sorted((kind for kind in kinds if kind.__module__ == module.__name__), key=_line)
        parts += [f"## {(module.__doc__ or '').splitlines()[0].rstrip('.')}\n", f"In `{module.__name__}`.\n"]
        parts += [_operation(kind) for kind in here]
    return page("Operations", *parts)


def _line(kind: type) -> int:
    return inspect.getsourcelines(kind)[1]


def command_line() -> str:
    """Write the page of `ff`."""
    return page(
        "ff", "Every command and option; [the guide](../guides/cli.md) shows them at work.\n", *commands()
    )


def api() -> str:
    """Write the list of everything public in Python."""
    return page("Python API", api_pages.index())


def api_room(room: Room) -> str:
    """Write one page of the Python API."""
    return page(room.title, api_pages.page(room))


PAGES: Final[dict[str, Callable[[], str]]] = {
    "api.md": api,
    **{f"api/{room.file}.md": functools.partial(api_room, room) for room in ROOMS},
    "cli.md": command_line,
    "states.md": states,
    "transitions.md": transitions,
    "errors.md": error_codes,
    "operations.md": operations,
    "openapi.json": openapi.written,
}


def main() -> int:
    """Write every page."""
    for name, write in PAGES.items():
        (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_text(write(), encoding="utf-8")
        print(f"docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
