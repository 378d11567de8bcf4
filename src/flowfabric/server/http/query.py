"""Paths and queries as text, and queries read into the struct of a route. Whatever does not fit is 400 and named."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final
from urllib.parse import parse_qs, unquote_to_bytes

import msgspec
from msgspec import inspect

from flowfabric.wire.errors import HttpError, bad_request

MAX_PARAMETERS: Final = 1_000
_WHOLE: Final = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_SWITCH: Final = {"true": True, "1": True, "false": False, "0": False}
_IN_PATH: Final = {"id": "execution_id", "idx": "attempt_index"}
"""How errors call what paths call otherwise."""
_FIELD: Final = re.compile(r" - at `\$\.?(.*)`$")


def text_of(field: str, data: bytes) -> str:
    """Read what was percent-encoded; it has to be UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise bad_request(f"{field}: must be percent-encoded UTF-8", field=field) from error


def check_path(parts: dict[str, bytes]) -> dict[str, str]:
    """Read the parameters of a path."""
    return {name: text_of(_IN_PATH.get(name, name), part) for name, part in parts.items()}


def check_query(data: bytes) -> None:
    """Refuse a query that is no text, whether or not the route reads it."""
    if b"%" not in data and data.isascii():
        return
    for parameter in data.split(b"&"):
        name, _, value = (unquote_to_bytes(part) for part in parameter.partition(b"="))
        text_of(text_of("query", name), value)


def decode_query(form: Any, data: bytes) -> Any:
    """Read a query. Unknown parameters are ignored; a known one comes once, unless it may be repeated."""
    try:
        given = parse_qs(data.decode(), keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError as error:
        raise _bad(f"more than {MAX_PARAMETERS} parameters") from error
    kinds = _kinds(form)
    repeatable: frozenset[str] = getattr(form, "REPEATABLE", frozenset())
    values: dict[str, Any] = {}
    for name, many in given.items():
        if name in repeatable:
            values[name] = many
        elif name in kinds:
            if len(many) > 1:
                raise _bad(f"`{name}` is given {len(many)} times", name)
            values[name] = _value(name, kinds[name], many[0])
    try:
        return msgspec.convert(values, form)
    except msgspec.ValidationError as error:
        found = _FIELD.search(str(error))
        raise _bad(str(error), found[1] if found else "") from error


def _value(name: str, kind: type, text: str) -> Any:
    """Read one value: numbers are decimal digits and nothing else."""
    if kind is int:
        if not _WHOLE.fullmatch(text):
            raise _bad(f"`{name}` must be an integer", name)
        return int(text)
    if kind is bool:
        if text not in _SWITCH:
            raise _bad(f"`{name}` must be true or false", name)
        return _SWITCH[text]
    return text


def _bad(text: str, field: str = "") -> HttpError:
    return bad_request(f"invalid query: {text}", field=field)


@cache
def _kinds(form: Any) -> dict[str, type]:
    """Say for each parameter of a form whether it is a number, a switch or text."""
    shape = inspect.type_info(form)
    assert isinstance(shape, inspect.StructType)
    return {field.encode_name: _kind(field.type) for field in shape.fields}


def _kind(shape: inspect.Type) -> type:
    if isinstance(shape, inspect.UnionType):
        return next((kind for each in shape.types if (kind := _kind(each)) is not str), str)
    if isinstance(shape, inspect.Metadata):
        return _kind(shape.type)
    return {inspect.IntType: int, inspect.BoolType: bool}.get(type(shape), str)
