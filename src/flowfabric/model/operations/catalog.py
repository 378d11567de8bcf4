"""List every area and every command."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

from flowfabric.model.command import Command
from flowfabric.model.machine.group import steps
from flowfabric.model.operations import (
    access,
    access_secret,
    claim,
    create,
    finish,
    grant,
    kind,
    lane,
    lease,
    operate,
    read,
    read_list,
    signal,
    step,
    stream,
    suspend,
    suspend_resume,
    suspend_waitpoint,
    timer,
    worker,
)

AREAS: Final[tuple[ModuleType, ...]] = (
    create,
    claim,
    grant,
    lease,
    finish,
    operate,
    lane,
    suspend,
    suspend_resume,
    suspend_waitpoint,
    signal,
    stream,
    step,
    timer,
    worker,
    access,
    access_secret,
    kind,
    read,
    read_list,
)
"""Every module that holds operations, in the order in which they are documented."""


def decidable() -> frozenset[type[Command[Any]]]:
    """Return every kind of command and question that has a step."""
    return steps()
