"""Arguments as people type them, read and checked by what a worker has published of the task."""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Final, NoReturn

from flowfabric.cli.schemas import (
    Schema,
    binary_of,
    fits,
    has_format,
    may_be,
    primitives,
    properties_of,
    required_of,
    schema_of,
    type_name,
)
from flowfabric.model.errors import invalid
from flowfabric.model.records import Kind

ANYWAY: Final = "(--no-check sends it anyway)"
_WRITTEN: Final = {"integer": "3", "number": "1.5", "boolean": "true", "null": "null"}


def value_of(text: str) -> Any:
    """Read a value as people type it: JSON where it is that, else text."""
    try:
        return json.loads(text, parse_constant=_no_json)
    except ValueError:
        return text


def _no_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def read_arguments(kind: Kind | None, given: Iterable[str]) -> dict[str, Any]:
    """Read NAME=VALUE; a value is of the type that the kind says, if that is a simple one."""
    schema = {} if kind is None else schema_of(kind)
    properties = properties_of(schema) or {}
    arguments: dict[str, Any] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not name.isidentifier() or not separator:
            raise invalid("arguments", f"write NAME=VALUE, not {text!r}")
        arguments[name] = _typed(value, properties.get(name))
    if kind is not None:
        _check_names(kind, schema, arguments, whole=len(properties) == 1)
        _check_types(kind, properties, arguments)
    return arguments


def _typed(text: str, schema: Any) -> Any:
    types = primitives(schema)
    value = value_of(text)
    return text if "string" in types and not fits(value, types) else value


def check_input(kind: Kind | None, data: bytes) -> None:
    """Refuse an input in JSON that the kind cannot take: names, and values that are not of their simple types."""
    if kind is None:
        return
    schema = schema_of(kind)
    value = json.loads(data) if data else {}
    if isinstance(value, dict):
        _check_names(kind, schema, value, whole=True)
        _check_types(kind, properties_of(schema) or {}, value)
    else:
        _check_binary(kind, schema)


def _check_binary(kind: Kind, schema: Schema) -> None:
    name = binary_of(schema)
    if name:
        how = "give them with --raw --input @FILE (- reads standard input)"
        raise invalid(name, f"{kind.kind} takes bytes, and no JSON: {how} {ANYWAY}")


def _check_names(kind: Kind, schema: Schema, value: dict[str, Any], *, whole: bool) -> None:
    """Refuse names that the kind does not know, and the lack of those that it needs.

    If the `whole` object may be meant, it can be the first argument itself.
    """
    _check_binary(kind, schema)
    properties, required = properties_of(schema), required_of(schema)
    if properties is None or (whole and value and _is_first(schema, properties, value, required)):
        return
    for name in value:
        if name not in properties and schema.get("additionalProperties", False) is False:
            takes = f"takes {', '.join(properties)}" if properties else "takes no arguments"
            near = get_close_matches(name, properties, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise invalid(name, f"there is no such argument: {kind.kind} {takes}{meant} {ANYWAY}")
    for name in required:
        if name not in value:
            raise invalid(name, f"{kind.kind} needs it, and it is missing {ANYWAY}")


def _is_first(schema: Schema, properties: dict[str, Any], value: dict[str, Any], required: list[str]) -> bool:
    """Whether an object without any known name can be the first argument itself."""
    if not properties or not properties.keys().isdisjoint(value):
        return False
    first, described = next(iter(properties.items()))
    return set(required) <= {first} and may_be(described, value, schema)


def _check_types(kind: Kind, properties: dict[str, Any], value: dict[str, Any]) -> None:
    """Refuse what is not of its simple type; texts of a special format may be written in other ways, too."""
    for name, each in value.items():
        described = properties.get(name, {})
        types = primitives(described)
        if not types or fits(each, types) or has_format(described):
            continue
        ways = [f"{name}={_WRITTEN[type_]}" for type_ in _WRITTEN if type_ in types]
        if "boolean" in types:
            ways.append(f"{name}=false")
        how = f": write {' or '.join(ways)}" if ways and "string" not in types else ""
        problem = f"{kind.kind} takes {type_name(described)} here, not {json.dumps(each)[:60]}{how}"
        raise invalid(name, f"{problem} {ANYWAY}")
