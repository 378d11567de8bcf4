"""Checks of single fields: each takes what the caller sent and gives it back, or says what is wrong.

They accept anything, because input may come from a program as well as from the wire. Refusals name the
field and the rule, and repeat the value only where it is a tag key or a capability verdict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from flowfabric.model.errors import invalid, refuse
from flowfabric.model.limits import (
    MAX_CAPABILITIES,
    MAX_CAPABILITY_BYTES,
    MAX_INT,
    MAX_KIND_BYTES_PER_CLAIM,
    MAX_KINDS_PER_CLAIM,
    MAX_LANE_BYTES,
    MAX_NAME_BYTES,
    MAX_TAG_KEY_BYTES,
    MAX_TAG_VALUE_BYTES,
    MAX_TAGS,
    MAX_TEXT_BYTES,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flowfabric.model.errors import FlowFabricError

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CONTROL_OR_SPACE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]|\s")
_BREAKS: Final = {ord(mark): " " for mark in "\n\r\t"}
_LOW_BYTE: Final = re.compile(r"[\x00-\x20\x7f]")
_NOT_PRINTABLE: Final = re.compile(rb"[^\x20-\x7e]")
_TAG_KEY: Final = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)*")


def text(field: str, value: object, max_bytes: int = MAX_TEXT_BYTES, *, empty: bool = False) -> str:
    """Check free text: valid UTF-8 and not too long."""
    if isinstance(value, str) and value.isascii() and len(value) <= max_bytes and (value or empty):
        return value
    if not isinstance(value, str):
        raise invalid(field, "must be text")
    if not value and not empty:
        raise invalid(field, "must not be empty")
    size = _utf8_size(value)
    if size is None:
        raise invalid(field, "must be valid UTF-8 (it holds a lone surrogate)")
    if size > max_bytes:
        raise invalid(field, f"is {size} bytes long; at most {max_bytes} are allowed")
    return value


def name(field: str, value: object, max_bytes: int = MAX_NAME_BYTES, *, empty: bool = False) -> str:
    """Check a name: short text without control characters."""
    checked = text(field, value, max_bytes, empty=empty)
    if not checked.isprintable() and _CONTROL.search(checked):
        raise invalid(field, "must not contain control characters")
    return checked


def lines(field: str, value: object, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Check text that people read: lines and tabs, and no other control characters."""
    checked = text(field, value, max_bytes, empty=True)
    if not checked.isprintable() and _CONTROL.search(checked.translate(_BREAKS)):
        raise invalid(field, "must not contain control characters other than line breaks and tabs")
    return checked


def worker(field: str, value: object) -> str:
    """Check the name of a worker or of one of its instances: a name without any white space."""
    checked = text(field, value, MAX_NAME_BYTES)
    if _CONTROL_OR_SPACE.search(checked):
        raise invalid(field, "must not contain control characters or white space")
    return checked


def lane(value: object, field: str = "lane_id") -> str:
    """Check a lane: 1 to 64 printable ASCII characters, space included."""
    if not isinstance(value, str):
        raise invalid(field, "must be text")
    if not value:
        raise refuse("invalid_input", "Empty", text="must not be empty", field=field)
    # A lone surrogate has no UTF-8 form; passing it through lets it count as the bad byte that it is.
    data = value.encode("utf-8", "surrogatepass")
    if len(data) > MAX_LANE_BYTES:
        problem = f"is {len(data)} bytes long; at most {MAX_LANE_BYTES} are allowed"
        raise refuse("invalid_input", "TooLong", str(len(data)), text=problem, field=field)
    bad = _NOT_PRINTABLE.search(data)
    if bad is not None:
        problem = f"byte {bad.start()} is not a printable ASCII character"
        raise refuse("invalid_input", "NonPrintable", str(bad.start()), text=problem, field=field)
    return value


def kinds(names: tuple[str, ...] | None) -> None:
    """Check the kinds that a worker takes; None is any."""
    if names is not None and len(names) > MAX_KINDS_PER_CLAIM:
        raise invalid("kinds", f"name at most {MAX_KINDS_PER_CLAIM} kinds, or leave them out for any")
    size = sum(len(name("kinds", each).encode()) for each in names or ())
    if size > MAX_KIND_BYTES_PER_CLAIM:
        problem = f"the names have {size} bytes; at most {MAX_KIND_BYTES_PER_CLAIM} are allowed"
        raise invalid("kinds", f"{problem}: name fewer kinds, or leave them out for any")


def integer(field: str, value: object, low: int = 0, high: int = MAX_INT) -> int:
    """Check an integer from `low` to `high`, and never beyond what every store keeps exactly."""
    if type(value) is int and low <= value <= high and -MAX_INT <= value <= MAX_INT:
        return value
    low, high = max(low, -MAX_INT), min(high, MAX_INT)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise invalid(field, f"must be an integer from {low} to {high}")
    return value


def payload(field: str, data: object, limit: int) -> bytes:
    """Check the size of bytes."""
    if not isinstance(data, bytes):
        raise invalid(field, "must be bytes")
    if len(data) > limit:
        problem = f"is {len(data)} bytes long; at most {limit} are allowed"
        raise refuse("payload_too_large", text=problem, field=field)
    return data


def required_capabilities(values: Any) -> tuple[str, ...]:
    """Check what an execution requires, and put it into its stored form: sorted, each once."""
    return _capabilities("required", values, _LOW_BYTE)


def worker_capabilities(values: Any) -> tuple[str, ...]:
    """Check what a worker offers, and put it into its stored form: sorted, each once."""
    return _capabilities("worker", values, _CONTROL_OR_SPACE)


def missing_capabilities(required: Iterable[str], offered: Iterable[str]) -> tuple[str, ...]:
    """Return what a worker lacks, sorted; empty when it may run the work."""
    return tuple(sorted(set(required).difference(offered)))


def tags(mapping: Any) -> tuple[tuple[str, str], ...]:
    """Check tags, and put them into their stored form: pairs sorted by key."""
    if not isinstance(mapping, Mapping):
        raise invalid("tags", "must be an object of text values")
    if len(mapping) > MAX_TAGS:
        raise invalid("tags", f"there are {len(mapping)} tags; at most {MAX_TAGS} are allowed")
    for key in mapping:
        if not isinstance(key, str) or len(key) > MAX_TAG_KEY_BYTES or not _TAG_KEY.fullmatch(key):
            raise refuse("invalid_tag_key", _shown(key), field="tags")
    return tuple(
        sorted((key, text(f"tags.{key}", mapping[key], MAX_TAG_VALUE_BYTES, empty=True)) for key in mapping)
    )


def _utf8_size(value: str) -> int | None:
    if value.isascii():
        return len(value)
    try:
        return len(value.encode())
    except UnicodeEncodeError:
        return None


def _capabilities(side: str, values: Any, forbidden: re.Pattern[str]) -> tuple[str, ...]:
    if not isinstance(values, list | tuple | set | frozenset):
        raise _bad_capabilities(side, "not_array")
    for token in values:
        reason = _token_problem(token, forbidden)
        if reason:
            raise _bad_capabilities(side, reason)
    tokens = tuple(sorted(set(values)))
    if len(tokens) > MAX_CAPABILITIES:
        raise _bad_capabilities(side, "too_many_tokens")
    if len(",".join(tokens).encode()) > MAX_CAPABILITY_BYTES:
        raise _bad_capabilities(side, "too_many_bytes")
    return tokens


def _token_problem(token: object, forbidden: re.Pattern[str]) -> str:
    if not isinstance(token, str):
        return "non_string_token"
    if not token:
        return "empty_token"
    if "," in token:
        return "comma_in_token"
    if forbidden.search(token):
        return "control_or_whitespace"
    if _utf8_size(token) is None:
        return "invalid_utf8"
    return ""


def _bad_capabilities(side: str, reason: str) -> FlowFabricError:
    return refuse("invalid_capabilities", f"{side}:{reason}", field=f"{side}_capabilities")


def _shown(key: object) -> str:
    """Make a refused key fit to be repeated: short, and encodable even when it is not valid text."""
    return str(key)[:MAX_TAG_KEY_BYTES].encode("utf-8", "backslashreplace").decode()
