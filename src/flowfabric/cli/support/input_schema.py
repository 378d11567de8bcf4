"""Read the JSON schema that a worker has published for the arguments of a kind."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from flowfabric.model.records import Kind

Schema = dict[str, Any]
SIMPLE_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "null"})


def schema_of(kind: Kind) -> Schema:
    """Return the schema of the whole input; empty if the kind has none."""
    schema: Schema = json.loads(kind.input_schema) if kind.input_schema else {}
    return schema


def properties_of(schema: Schema) -> dict[str, Any] | None:
    """Return the schema of each argument by name; None if the schema does not list them."""
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else None


def required_of(schema: Schema) -> list[str]:
    """Return the names of the required arguments."""
    required = schema.get("required", [])
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def binary_argument_of(schema: Schema) -> str:
    """Return the name of the single argument if it takes raw bytes; otherwise an empty string."""
    properties = properties_of(schema) or {}
    first = next(iter(properties), "")
    return first if len(properties) == 1 and _is_binary(properties[first]) else ""


def _is_binary(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "string" and schema.get("format") == "binary"


def type_name(schema: Any) -> str:
    """Return a short name of a type."""
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


def simple_types(schema: Any) -> frozenset[str]:
    """Return the simple types that a value may have; empty if the schema is more complex, or says nothing."""
    if not isinstance(schema, dict):
        return frozenset()
    choices = schema.get("anyOf")
    if isinstance(choices, list):
        each = [simple_types(choice) for choice in choices]
        return frozenset().union(*each) if all(each) else frozenset()
    type_ = schema.get("type")
    names: list[Any] = type_ if isinstance(type_, list) else [type_]
    simple = all(isinstance(name, str) and name in SIMPLE_TYPES for name in names)
    return frozenset(names) if simple else frozenset()


def has_format(schema: Schema) -> bool:
    """Return whether a schema of a simple type has a format, such as that of a decimal number."""
    choices = schema.get("anyOf")
    return "format" in schema or (isinstance(choices, list) and any(map(has_format, choices)))


def has_type(value: Any, types: frozenset[str]) -> bool:
    """Return whether a value has one of the simple types."""
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


def may_match(schema: Any, value: dict[str, Any], whole: Schema) -> bool:
    """Return whether an object may match a schema: all required names are there, and at least one known name."""
    if not isinstance(schema, dict):
        return True
    choices = schema.get("anyOf")
    if isinstance(choices, list):
        return any(may_match(choice, value, whole) for choice in choices)
    if "$ref" in schema:
        schema = _definition(whole, schema["$ref"])
    if schema.get("type", "object") != "object":
        return False
    known = properties_of(schema)
    if not known:
        return True
    return value.keys() >= set(required_of(schema)) and not known.keys().isdisjoint(value)


def _definition(whole: Schema, reference: Any) -> Schema:
    """Return the schema that a reference names; empty, which matches anything, if it is unknown."""
    definitions = whole.get("$defs")
    name = str(reference).removeprefix("#/$defs/")
    found = definitions.get(name) if isinstance(definitions, dict) else None
    return found if isinstance(found, dict) else {}
