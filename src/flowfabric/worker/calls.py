"""Calls of tasks that are ready to be submitted."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from msgspec import Struct

from flowfabric.codecs import Codec
from flowfabric.model.operations.create import CreateExecution

R_co = TypeVar("R_co", covariant=True)


class Call(Struct, Generic[R_co], frozen=True):
    """One call of a task, ready to be submitted. Its id is chosen already, so that sending it twice creates one run."""

    command: CreateExecution
    """What will be sent, without its partition, which the store decides."""
    returns: Any
    """The type of its result."""
    codec: Codec | None = None
    """How its result is read; none: as the app does."""
    by_name: bool = False
    """Whether what was left out comes from the kind that a worker has published; its lane is empty until then."""
