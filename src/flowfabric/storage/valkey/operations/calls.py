"""What a command becomes on its way to the server, and how its reply is read back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import astuple

from flowfabric.model.command import Command, Fence, HolderCommand
from flowfabric.model.errors import FlowFabricError, InternalError, from_code

C = TypeVar("C", bound=Command[Any])
A = TypeVar("A", bound="Callable[[Any, Reply], Any]")

Packed = tuple[Sequence[Any], tuple[bytes, ...]]
"""The fields of a command as they are packed, and the bytes that travel beside them."""
Packer = Callable[[Any], Packed | None]
"""Packs a command; None when the fast path leaves it to the general one."""

encode: Final = msgspec.msgpack.Encoder().encode


class Reply:
    """The parts of a reply, read one after the other; one that is not as expected names function and field."""

    __slots__ = ("_parts", "_place", "function")

    def __init__(self, function: str, parts: list[Any], place: int = 0) -> None:
        self.function = function
        self._parts = parts
        self._place = place

    def bytes(self, field: str) -> bytes:
        """Read bytes."""
        value = self._next(field)
        if not isinstance(value, bytes):
            raise self._odd(field, value)
        return value

    def text(self, field: str) -> str:
        """Read text."""
        return self.bytes(field).decode()

    def integer(self, field: str) -> int:
        """Read an integer."""
        value = self._next(field)
        if not isinstance(value, int):
            raise self._odd(field, value)
        return value

    def list(self, field: str) -> list[Any]:
        """Read a list."""
        value = self._next(field)
        if not isinstance(value, list):
            raise self._odd(field, value)
        return value

    def any(self, field: str) -> Any:
        """Read what may be bytes or a list."""
        return self._next(field)

    def rest(self) -> int:
        """Say how many parts are left."""
        return len(self._parts) - self._place

    def _next(self, field: str) -> Any:
        if self._place >= len(self._parts):
            raise InternalError(f"the reply of {self.function} has no {field}")
        self._place += 1
        return self._parts[self._place - 1]

    def _odd(self, field: str, value: object) -> InternalError:
        return InternalError(f"the reply of {self.function} has {type(value).__name__} as {field}")


class Operation(NamedTuple):
    """How one kind of command is sent and answered."""

    function: str
    pack: Packer
    answer: Callable[[Any, Reply], Any]


OPERATIONS: Final[dict[type[Command[Any]], Operation]] = {}


def operation(
    kind: type[C],
    function: str,
    *,
    blobs: tuple[str, ...] = (),
    pack: Callable[[C], Packed | None] | None = None,
) -> Callable[[A], A]:
    """Register how the reply of a kind of command is read; `blobs` names its fields of bytes.

    One reader may serve several kinds that are answered alike.
    """

    def register(answer: A) -> A:
        OPERATIONS[kind] = Operation(function, pack or _packer(kind, blobs), answer)
        return answer

    return register


def _packer(kind: type[C], blobs: tuple[str, ...]) -> Callable[[C], Packed]:
    """Pack every field in its place; where bytes are, only whether there are any."""
    places = [kind.__struct_fields__.index(field) for field in blobs]

    if not places:
        return lambda command: (astuple(command), ())

    def pack(command: C) -> Packed:
        fields = list(astuple(command))
        beside = tuple(fields[place] or b"" for place in places)
        for place in places:
            fields[place] = fields[place] is not None
        return fields, beside

    return pack


class Call(NamedTuple):
    """One call of a function."""

    command: Command[Any]
    operation: Operation
    arguments: tuple[bytes, ...]

    def read(self, raw: Any) -> Any:
        """Turn a raw reply into the typed answer, or into the error that refused the command."""
        if type(raw) is list and raw and raw[0] == 1:
            return self.operation.answer(self.command, Reply(self.operation.function, raw, 1))
        reply = Reply(self.operation.function, raw if isinstance(raw, list) else [])
        if reply.integer("status"):
            return self.operation.answer(self.command, reply)
        return refusal(reply)


def fast_call(command: Command[Any]) -> Call | None:
    """Say which function decides a command, and with which arguments; None when it has no fast path."""
    known = OPERATIONS.get(type(command))
    packed = None if known is None else known.pack(command)
    if known is None or packed is None:
        return None
    fields, blobs = packed
    return Call(command, known, (pack_fields(fields), *blobs))


def call_of(command: Command[Any]) -> Call:
    """Do as `fast_call` does, for a command that certainly has a fast path."""
    call = fast_call(command)
    assert call is not None
    return call


_FENCE: Final = HolderCommand.__struct_fields__.index("fence")


def pack_fields(fields: Sequence[Any]) -> bytes:
    """Pack fields one after another: an array without its head, which Lua takes apart in half the time."""
    if len(fields) > _FENCE and type(fields[_FENCE]) is Fence:
        fields = (*fields[:_FENCE], astuple(fields[_FENCE]), *fields[_FENCE + 1 :])
    return encode(fields)[1 if len(fields) < 16 else 3 :]


def refusal(reply: Reply) -> FlowFabricError:
    """Rebuild a refusal from its parts."""
    code, text, field = reply.text("code"), reply.text("text"), reply.text("field")
    details = tuple(reply.text("detail") for _ in range(reply.rest()))
    return from_code(code, text, field, details)
