"""JSON merge patches (RFC 7396) on summary documents.

Numbers are carried as the text that was sent, so that no digit is ever lost.
"""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

import msgspec

from flowfabric.model.errors import invalid, refuse
from flowfabric.model.limits import MAX_PATCH_DEPTH

NULL_SENTINEL: Final = "__ff_null__"
"""In a patch a null deletes; this text stores a real null."""

PATCH_KIND: Final = "json-merge-patch"

MAX_NESTING: Final = 128
"""Levels of arrays and objects together: the patch depth does not bound arrays, which are replaced whole."""


def patch_kind(text: str) -> str:
    """Check the kind of a patch; empty is the only kind there is."""
    if text not in {"", PATCH_KIND}:
        raise invalid("patch_kind", "unsupported patch_kind")
    return PATCH_KIND


def apply_patch(document: bytes, patch: bytes) -> bytes:
    """Merge a patch into a document (empty: none yet); keys keep their places, new ones follow."""
    changes = _read_patch(patch)
    try:
        return msgspec.json.encode(_merge(_read_document(document), changes, 0))
    except UnicodeEncodeError as error:
        raise invalid("payload", "patch payload is not valid JSON: it holds a lone surrogate") from error


def _read_patch(patch: bytes) -> dict[str, Any]:
    try:
        changes = _loads(patch)
    except ValueError as error:
        raise invalid("payload", "patch payload is not valid JSON") from error
    except RecursionError as error:
        raise refuse("patch_depth_exceeded", field="payload") from error
    if not isinstance(changes, dict):
        raise invalid("payload", "patch must be a JSON object")
    level: list[Any] = [changes]
    for _ in range(MAX_NESTING):
        level = [inner for value in level for inner in _inside(value)]
    if any(isinstance(value, dict | list) for value in level):
        text = f"the patch is nested deeper than {MAX_NESTING} levels"
        raise refuse("patch_depth_exceeded", text=text, field="payload")
    return changes


def _read_document(document: bytes) -> dict[str, Any]:
    try:
        value = _loads(document) if document else {}
    except (ValueError, RecursionError) as error:
        raise refuse("corruption", text="the stored summary is not JSON") from error
    if not isinstance(value, dict):
        raise refuse("corruption", text="the stored summary is not an object")
    return value


def _loads(data: bytes) -> Any:
    return json.loads(data.decode(), parse_int=_number, parse_float=_number, parse_constant=_no_number)


def _number(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _merge(target: Any, changes: dict[str, Any], depth: int) -> dict[str, Any]:
    if depth > MAX_PATCH_DEPTH:
        raise refuse("patch_depth_exceeded", field="payload")
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _merge(merged.get(key), value, depth + 1)
        else:
            merged[key] = _with_nulls(value)
    return merged


def _with_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_nulls(item) for item in value]
    if isinstance(value, dict):
        return {key: _with_nulls(item) for key, item in value.items()}
    return None if value == NULL_SENTINEL else value
