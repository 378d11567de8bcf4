"""Reads the fields of a decoded policy; every refusal carries the path of the field."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from flowfabric.model import limits
from flowfabric.model.errors import FlowFabricError, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_ITEMS: Final = 64
"""Entries of a list inside a policy, capabilities apart."""


class Fields:
    """One JSON object of a policy. An absent field has its default; a null is refused."""

    def __init__(self, values: dict[str, Any], path: str = "") -> None:
        self.values = values
        self._path = path

    def has(self, name: str) -> bool:
        """Whether the field was sent at all."""
        return name in self.values

    def wrong(self, name: str, reason: str, text: str) -> FlowFabricError:
        """Build the refusal of one field: path and short reason in the details, a sentence in the text."""
        path = f"{self._path}{name}"
        return refuse("invalid_policy_json", f"{path}:{reason}", text=f"{path} {text}", field="policy")

    def inner(self, name: str) -> Fields:
        """Give the object in this field; an absent one is empty."""
        value = self._of(name, {}, dict, "not_object", "an object")
        return Fields(value, f"{self._path}{name}.")

    def routing(self) -> Fields:
        """Give `routing_requirements`, the one object whose null is refused for not being an object."""
        name = "routing_requirements"
        if self.has(name) and self.values[name] is None:
            raise self.wrong(name, "not_object", "must be an object")
        return self.inner(name)

    def inners(self, name: str) -> Iterator[Fields]:
        """Give the objects of the list in this field."""
        for index, value in enumerate(self._list(name)):
            if not isinstance(value, dict):
                raise self.wrong(f"{name}[{index}]", "not_object", "must be an object")
            yield Fields(value, f"{self._path}{name}[{index}].")

    def integer(self, name: str, default: int, low: int = 0, high: int = limits.MAX_INT) -> int:
        """Read an integer that every store keeps exactly."""
        value: int = self._of(name, default, int, "not_integer", "an integer")
        if self.has(name) and not low <= value <= high:
            reason = "too_small" if value < low else "too_large"
            raise self.wrong(name, reason, f"must be from {low} to {high}")
        return value

    def count(self, name: str, default: int) -> int:
        """Read how often something may happen: 32 bits."""
        return self.integer(name, default, high=limits.MAX_COUNT)

    def number(self, name: str, default: float) -> float:
        """Read a number that is finite and not negative."""
        value: float = self._of(name, default, (int, float), "not_number", "a number")
        if not math.isfinite(value):
            raise self.wrong(name, "not_finite", "must be a finite number")
        if not 0 <= value <= limits.MAX_INT:
            reason = "too_small" if value < 0 else "too_large"
            raise self.wrong(name, reason, f"must be from 0 to {limits.MAX_INT}")
        return float(value)

    def boolean(self, name: str) -> bool:
        """Read a boolean; an absent one is false."""
        value: bool = self._of(name, False, bool, "not_boolean", "true or false")
        return value

    def string(self, name: str, default: str = "") -> str:
        """Read a text."""
        value: str = self._of(name, default, str, "not_string", "a string")
        return self._text(name, value)

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """Read a text that must be one of the choices."""
        value = self.string(name, default)
        if self.has(name) and value not in choices:
            raise self.wrong(name, "unknown", f"must be one of {', '.join(choices)}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Read a list of non-empty texts; repeats are dropped."""
        for index, value in enumerate(self._list(name)):
            place = f"{name}[{index}]"
            if not isinstance(value, str):
                raise self.wrong(place, "not_string", "must be a string")
            if not self._text(place, value):
                raise self.wrong(place, "empty", "must not be empty")
        return tuple(dict.fromkeys(self._list(name)))

    def _list(self, name: str) -> list[Any]:
        values: list[Any] = self._of(name, [], list, "not_array", "an array")
        if len(values) > MAX_ITEMS:
            raise self.wrong(name, "too_many", f"must have at most {MAX_ITEMS} entries")
        return values

    def _of(self, name: str, default: Any, kind: type | tuple[type, ...], reason: str, wanted: str) -> Any:
        value = self.values.get(name, default)
        if value is None:
            raise self.wrong(name, "null", "must not be null; leave the field out instead")
        # To Python a boolean is an integer; to JSON it is not.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            not_finite = reason != "not_number" and isinstance(value, float) and not math.isfinite(value)
            raise self.wrong(name, "not_finite" if not_finite else reason, f"must be {wanted}")
        return value

    def _text(self, name: str, value: str) -> str:
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            raise self.wrong(name, "not_text", "must be valid Unicode text") from error
        if size > limits.MAX_NAME_BYTES:
            raise self.wrong(name, "too_long", f"must have at most {limits.MAX_NAME_BYTES} bytes")
        return value
