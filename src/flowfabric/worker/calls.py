"""Prepared calls of tasks."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from msgspec import Struct

from flowfabric.codecs import Codec
from flowfabric.model.operations.create import CreateExecution

R_co = TypeVar("R_co", covariant=True)


class Call(Struct, Generic[R_co], frozen=True):
    """A prepared call of a task. Its id is fixed, so that submitting it twice creates one run."""

    command: CreateExecution
    """The command to send; the partition of its id is added when it is sent."""
    returns: Any
    """The type of the result."""
    codec: Codec | None = None
    """The codec of the result; None for that of the app."""
    by_name: bool = False
    """Whether the task is known by name only; options that are not set come from its published kind."""
