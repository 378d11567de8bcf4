"""What the published schema of a kind says about its arguments."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from flowfabric.model.records import Kind

Schema = dict[str, Any]
PRIMITIVES: Final = frozenset({"string", "integer", "number", "boolean", "null"})


def schema_of(kind: Kind) -> Schema:
    """Return the schema of the whole input; empty when nothing is known."""
    schema: Schema = json.loads(kind.input_schema) if kind.input_schema else {}
    return schema


def properties_of(schema: Schema) -> dict[str, Any] | None:
    """Return the schemas of the arguments by name; none when they are not known."""
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else None


def required_of(schema: Schema) -> list[str]:
    """Name the arguments that must be given."""
    required = schema.get("required", [])
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def binary_of(schema: Schema) -> str:
    """Name the argument that takes the input as it is, as bytes; empty when there is none."""
    properties = properties_of(schema) or {}
    first = next(iter(properties), "")
    return first if len(properties) == 1 and _is_binary(properties[first]) else ""


def _is_binary(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "string" and schema.get("format") == "binary"


def type_name(schema: Any) -> str:
    """Name a type in a word or a few."""
    if not isinstance(schema, dict):
        return "any"
    choices = schema.get("anyOf")
    if isinstance(choices, list):
        return " or ".join(map(type_name, choices))
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return reference.rpartition("/")[2]
    if _is_binary(schema):
        return "bytes (--raw)"
    if schema.get("contentEncoding") == "base64":
        return "base64"
    type_ = schema.get("type", "any")
    return " or ".join(map(str, type_)) if isinstance(type_, list) else str(type_)


def primitives(schema: Any) -> frozenset[str]:
    """Name the simple types that a value may have; empty when the schema says more than that, or nothing."""
    if not isinstance(schema, dict):
        return frozenset()
    choices = schema.get("anyOf")
    if isinstance(choices, list):
        each = [primitives(choice) for choice in choices]
        return frozenset().union(*each) if all(each) else frozenset()
    type_ = schema.get("type")
    names: list[Any] = type_ if isinstance(type_, list) else [type_]
    simple = all(isinstance(name, str) and name in PRIMITIVES for name in names)
    return frozenset(names) if simple else frozenset()


def has_format(schema: Schema) -> bool:
    """Whether a text of a special format, such as a decimal number, is among the choices of a simple type."""
    choices = schema.get("anyOf")
    return "format" in schema or (isinstance(choices, list) and any(map(has_format, choices)))


def fits(value: Any, types: frozenset[str]) -> bool:
    """Whether a value is of one of some simple types."""
    match value:
        case None:
            return "null" in types
        case bool():
            return "boolean" in types
        case int():
            return not types.isdisjoint({"integer", "number"})
        case float():
            return math.isfinite(value) and ("number" in types or ("integer" in types and value.is_integer()))
        case str():
            return "string" in types
        case _:
            return False


def may_be(schema: Any, value: dict[str, Any], whole: Schema) -> bool:
    """Whether an object may be a value of a schema: it has what is required, and something that is known."""
    if not isinstance(schema, dict):
        return True
    choices = schema.get("anyOf")
    if isinstance(choices, list):
        return any(may_be(choice, value, whole) for choice in choices)
    if "$ref" in schema:
        schema = _definition(whole, schema["$ref"])
    if schema.get("type", "object") != "object":
        return False
    known = properties_of(schema)
    if not known:
        return True
    return value.keys() >= set(required_of(schema)) and not known.keys().isdisjoint(value)


def _definition(whole: Schema, reference: Any) -> Schema:
    """Return what a reference leads to; anything may be there when that is not known."""
    definitions = whole.get("$defs")
    name = str(reference).removeprefix("#/$defs/")
    found = definitions.get(name) if isinstance(definitions, dict) else None
    return found if isinstance(found, dict) else {}
