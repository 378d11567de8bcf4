"""Name every kind of stored record once, with its type: steps and all stores read these declarations."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

from flowfabric.model.records import (
    AccessToken,
    Attempt,
    Execution,
    Kind,
    KindNames,
    KindNamespaces,
    Lane,
    Memo,
    Payload,
    Record,
    Result,
    Signal,
    Step,
    Stream,
    Summary,
    Suspension,
    Waitpoint,
    Worker,
)
from flowfabric.model.tokens import KeyRing

A_co = TypeVar("A_co", covariant=True)
R = TypeVar("R", bound=Record | Execution | KeyRing)

Key = tuple[Any, ...]
"""Names one record inside its kind, or a group of them by prefix."""


class IndexQuery(str, Generic[A_co]):
    """The name of a question that a store answers from its indexes; `A_co` is the type of the answer."""

    __slots__ = ()


class RecordKind(str, Generic[R]):
    """The name of a kind of stored record; `R` is the type of the record."""

    __slots__ = ("children", "form")
    form: type[R]
    children: IndexQuery[list[Key]]
    """Asks for the ends of all keys of this kind that begin with a prefix."""

    def __new__(cls, name: str, form: type[R]) -> RecordKind[R]:
        """Declare a kind under the name that stores know it by."""
        kind = super().__new__(cls, name)
        kind.form = form
        kind.children = IndexQuery(f"{name}*")
        return kind


EXECUTION: Final = RecordKind("execution", Execution)
PAYLOAD: Final = RecordKind("payload", Payload)
RESULT: Final = RecordKind("result", Result)
ATTEMPT: Final = RecordKind("attempt", Attempt)
SUSPENSION: Final = RecordKind("suspension", Suspension)
WAITPOINT: Final = RecordKind("waitpoint", Waitpoint)
SIGNAL: Final = RecordKind("signal", Signal)
STREAM: Final = RecordKind("stream", Stream)
SUMMARY: Final = RecordKind("summary", Summary)
STEP: Final = RecordKind("step", Step)
IDEMPOTENCY: Final = RecordKind("memo", Memo)
LANE: Final = RecordKind("lane", Lane)
WORKER: Final = RecordKind("worker", Worker)
TOKEN: Final = RecordKind("token", AccessToken)
KEYRING: Final = RecordKind("keyring", KeyRing)
KIND: Final = RecordKind("kind", Kind)
KIND_NAMES: Final = RecordKind("kind_names", KindNames)
KIND_NAMESPACES: Final = RecordKind("kind_namespaces", KindNamespaces)

OWNED: Final = (PAYLOAD, RESULT, ATTEMPT, SUSPENSION, WAITPOINT, SIGNAL, STREAM, SUMMARY, STEP)
"""Kinds whose keys begin with the execution that they belong to."""
SHARED: Final = (IDEMPOTENCY, LANE, WORKER, TOKEN, KEYRING, KIND, KIND_NAMES, KIND_NAMESPACES)
"""Kinds that belong to no execution."""
