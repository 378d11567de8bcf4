"""One thing that a simulation does to all stores, in a form that can be repeated and written down."""

from __future__ import annotations

from typing import Any

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from flowfabric.model.command import Command


class Action(Struct, frozen=True, kw_only=True):
    """Base; `lot` decides the chances that the stores draw meanwhile."""

    lot: int = 0


class Apply(Action, frozen=True):
    """Send one command; a question is read."""

    command: Command[Any]


class Many(Action, frozen=True):
    """Send commands as one group."""

    commands: tuple[Command[Any], ...]


class Jump(Action, frozen=True):
    """Move the clock, forward or back."""

    ms: int


class Sweep(Action, frozen=True):
    """Do what is due, as the engine would."""

    limit: int


class Collect(Action, frozen=True):
    """Delete what has expired."""

    limit: int


class Restart(Action, frozen=True):
    """Close the stores and open them again."""


def spell(value: Any) -> str:
    """Write a command down as code, secrets included, leaving out what is as always."""
    if isinstance(value, Struct):
        parts = []
        for each in fields(value):
            held = getattr(value, each.name)
            default = each.default if each.default_factory is NODEFAULT else each.default_factory()
            if held != default or each.required:
                parts.append(f"{each.name}={spell(held)}")
        return f"{type(value).__name__}({', '.join(parts)})"
    if isinstance(value, tuple):
        inner = ", ".join(spell(each) for each in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, bytes) and len(value) > 200:
        return f"{value[:1]!r} * {len(value)}"
    return repr(value)
