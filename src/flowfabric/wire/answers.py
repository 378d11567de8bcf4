"""Answers: structs that the server writes and the client reads, and answers of several kinds, told apart by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Self

import msgspec
from msgspec import UNSET, Meta, Struct

from flowfabric.model.errors import Unreachable

MISREAD: Final = "the answer is not of the expected shape; is it a FlowFabric server?"


class View(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of answers. A field that has its default is left out of the JSON, unless it is required."""

    @classmethod
    def of(cls, source: Any, /, **given: Any) -> Self:
        """Build it from the attributes of a record that have the same names; what is given takes precedence."""
        for name in cls.__struct_fields__:
            if name not in given and hasattr(source, name):
                given[name] = getattr(source, name)
        return cls(**given)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that the JSON has."""
        found = (
            (name, getattr(self, attribute), default) for attribute, name, default in _fields(type(self))
        )
        return {name: value for name, value, default in found if value is not UNSET and value != default}


@cache
def _fields(kind: type[View]) -> tuple[tuple[str, str, Any], ...]:
    """Return the attribute, the name in JSON and the default of each field."""
    return tuple((field.name, field.encode_name, field.default) for field in msgspec.structs.fields(kind))


class OneOf:
    """An answer that says which of several it is: `"Name"` without fields, `{"Name": {…}}` with fields.

    Most variants are answers of the engine, which look the same on the wire. A variant that looks different there is a
    `View` with `MODEL`, `of` and `model`.
    """

    def __init__(self, variants: Mapping[str, Any]) -> None:
        self.variants = variants
        self._names = {_model(kind): (name, _writer(kind)) for name, kind in variants.items()}

    @property
    def words(self) -> list[str]:
        """Return the names of variants without fields."""
        return [name for name, kind in self.variants.items() if not _has_fields(kind)]

    @property
    def shapes(self) -> dict[str, Any]:
        """Return the types of variants with fields, by name."""
        return {name: kind for name, kind in self.variants.items() if _has_fields(kind)}

    def write(self, answer: Any) -> Any:
        """Return what is encoded for an answer of the engine."""
        name, write = self._names[type(answer)]
        return name if write is None else {name: write(answer)}

    def read(self, body: bytes) -> Any:
        """Read an answer into that of the engine."""
        value = decoded(body)
        name: Any = value
        content: Any = {}
        if isinstance(value, dict) and len(value) == 1:
            ((name, content),) = value.items()
        kind = self.variants.get(name) if isinstance(name, str) else None
        if kind is None:
            raise Unreachable(
                f"the answer {name if isinstance(name, str) else 'without a name'!r} is not known here"
            )
        found = converted(content, kind)
        return found.model() if hasattr(kind, "MODEL") else found


def one_of(*same: Any, **named: Any) -> OneOf:
    """Declare an answer of several kinds: types under their own names, others under the names given."""
    return OneOf({kind.__name__: kind for kind in same} | named)


def _model(kind: Any) -> Any:
    return getattr(kind, "MODEL", kind)


def _has_fields(kind: Any) -> bool:
    return bool(getattr(kind, "__struct_fields__", True))


def _writer(kind: Any) -> Callable[[Any], Any] | None:
    if not _has_fields(kind):
        return None
    of: Callable[[Any], Any] = kind.of if hasattr(kind, "MODEL") else lambda answer: answer
    return of


def decoded(body: bytes, kind: Any = Any) -> Any:
    """Decode a JSON body. A body of another shape comes from another program, or from a version too far off."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unreachable(MISREAD) from error


def converted(content: Any, kind: Any) -> Any:
    """Convert decoded JSON into a type; see `decoded`."""
    try:
        return msgspec.convert(content, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Unreachable(MISREAD) from error


_ALTERNATIVES: Final[list[Any]] = []


def items_of(*kinds: Any) -> Meta:
    """Describe a list whose items are one of several structs, which only their fields tell apart."""
    _ALTERNATIVES.extend(kinds)
    refs = [{"$ref": f"#/components/schemas/{kind.__name__}"} for kind in kinds]
    return Meta(extra_json_schema={"items": {"anyOf": refs}})


def alternatives() -> tuple[Any, ...]:
    """Return the structs that `items_of` was used with: OpenAPI describes them."""
    return tuple(_ALTERNATIVES)
