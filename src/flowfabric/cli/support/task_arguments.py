"""Parse the arguments of a task, and check them against the schema that its worker has published."""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Final, NoReturn

from flowfabric.cli.support.input_schema import (
    Schema,
    binary_argument_of,
    has_format,
    has_type,
    may_match,
    properties_of,
    required_of,
    schema_of,
    simple_types,
    type_name,
)
from flowfabric.model.errors import invalid
from flowfabric.model.records import Kind

OVERRIDE_HINT: Final = "(--no-check sends it anyway)"
_EXAMPLES: Final = {"integer": "3", "number": "1.5", "boolean": "true", "null": "null"}


def parse_value(text: str) -> Any:
    """Return the value of text that is JSON, and any other text as it is."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        return text


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def parse_arguments(kind: Kind | None, given: Iterable[str]) -> dict[str, Any]:
    """Parse NAME=VALUE arguments; text stays text where the kind takes a string."""
    schema = {} if kind is None else schema_of(kind)
    properties = properties_of(schema) or {}
    arguments: dict[str, Any] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not name.isidentifier() or not separator:
            raise invalid("arguments", f"write NAME=VALUE, not {text!r}")
        arguments[name] = _parse_as(value, properties.get(name))
    if kind is not None:
        _check_names(kind, schema, arguments, may_be_first=len(properties) == 1)
        _check_types(kind, properties, arguments)
    return arguments


def _parse_as(text: str, schema: Any) -> Any:
    types = simple_types(schema)
    value = parse_value(text)
    return text if "string" in types and not has_type(value, types) else value


def check_input(kind: Kind | None, data: bytes) -> None:
    """Raise `InvalidInput` if the kind does not take a JSON input: its names, or values of simple types."""
    if kind is None:
        return
    schema = schema_of(kind)
    value = json.loads(data) if data else {}
    if isinstance(value, dict):
        _check_names(kind, schema, value, may_be_first=True)
        _check_types(kind, properties_of(schema) or {}, value)
    else:
        _check_binary(kind, schema)


def _check_binary(kind: Kind, schema: Schema) -> None:
    name = binary_argument_of(schema)
    if name:
        how = "give them with --raw --input @FILE (- reads standard input)"
        raise invalid(name, f"{kind.kind} takes bytes, not JSON: {how} {OVERRIDE_HINT}")


def _check_names(kind: Kind, schema: Schema, value: dict[str, Any], *, may_be_first: bool) -> None:
    """Raise `InvalidInput` for unknown names and for missing required ones.

    An object that `may_be_first` may be the value of the first argument instead.
    """
    _check_binary(kind, schema)
    properties, required = properties_of(schema), required_of(schema)
    if properties is None or (may_be_first and value and _is_first(schema, properties, value, required)):
        return
    for name in value:
        if name not in properties and schema.get("additionalProperties", False) is False:
            takes = f"takes {', '.join(properties)}" if properties else "takes no arguments"
            near = get_close_matches(name, properties, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise invalid(name, f"there is no such argument: {kind.kind} {takes}{meant} {OVERRIDE_HINT}")
    for name in required:
        if name not in value:
            raise invalid(name, f"{kind.kind} needs it, and it is missing {OVERRIDE_HINT}")


def _is_first(schema: Schema, properties: dict[str, Any], value: dict[str, Any], required: list[str]) -> bool:
    """Return whether an object without any known name can be the value of the first argument."""
    if not properties or not properties.keys().isdisjoint(value):
        return False
    first, described = next(iter(properties.items()))
    return set(required) <= {first} and may_match(described, value, schema)


def _check_types(kind: Kind, properties: dict[str, Any], value: dict[str, Any]) -> None:
    """Raise `InvalidInput` for values of a wrong simple type; strings with a format may have other forms, too."""
    for name, each in value.items():
        described = properties.get(name, {})
        types = simple_types(described)
        if not types or has_type(each, types) or has_format(described):
            continue
        ways = [f"{name}={_EXAMPLES[type_]}" for type_ in _EXAMPLES if type_ in types]
        if "boolean" in types:
            ways.append(f"{name}=false")
        how = f": write {' or '.join(ways)}" if ways and "string" not in types else ""
        problem = f"{kind.kind} takes {type_name(described)} here, not {json.dumps(each)[:60]}{how}"
        raise invalid(name, f"{problem} {OVERRIDE_HINT}")
