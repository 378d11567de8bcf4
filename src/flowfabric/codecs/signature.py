"""Encoding the arguments of a call as an object keyed by parameter names, which any language can write.

Any other input is bound as a whole to the first parameter; a single `bytes` parameter takes the raw input.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Collection, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import asdict

from flowfabric.codecs.values import (
    BYTES,
    JSON,
    RAW,
    Codec,
    DecodeFault,
    EncodeFault,
    JsonCodec,
    check_type,
    decode_value,
    encode_with,
)
from flowfabric.model.errors import InvalidInput, invalid

_ABSENT: Final = object()
_FEW: Final = 10
"""How many unknown names an error lists."""
_NO_OBJECT: Final = "got `object`"
_SIMPLE: Final = (str, int, bool, NoneType)
_NAMED: Final = frozenset(
    {
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    }
)


class Signature:
    """The parameters of a function that a caller supplies, with their types.

    ::

        signature = Signature.of(review)             # async def review(doc: str, pages: int = 1)
        signature.bind(("text",), {"pages": 2})      # (b'{"doc":"text","pages":2}', "json")
        signature.unbind(b'"text"', "json")          # {"doc": "text"}
    """

    def __init__(self, function: Callable[..., Any], skip: Collection[str], codec: Codec) -> None:
        self.name: str = getattr(function, "__qualname__", repr(function))
        self._parameters = inspect.signature(function).parameters
        """All parameters of the function, by name."""
        parameters = {name: each for name, each in self._parameters.items() if name not in skip}
        for each in parameters.values():
            if each.kind not in _NAMED:
                problem = f"{each} cannot travel, because arguments travel by name"
                raise TypeError(f"{self.name}: {problem}: name every parameter")
        types = hints_of(function)
        self.types: dict[str, Any] = {each: types.get(each, Any) for each in parameters}
        """The types of the parameters that a caller supplies, in the order of the function."""
        self._plain = {name: _plain(type_) for name, type_ in self.types.items()}
        """The types whose values certainly fit, by name; None if any value does."""
        self._codec = codec
        self._names = tuple(parameters)
        self._places = tuple(
            each.name for each in parameters.values() if each.kind is not inspect.Parameter.KEYWORD_ONLY
        )
        self._required = frozenset(
            each.name for each in parameters.values() if each.default is inspect.Parameter.empty
        )
        self._nameless = tuple(
            each.name for each in self._parameters.values() if each.kind is inspect.Parameter.POSITIONAL_ONLY
        )
        self._raw = len(self._names) == 1 and _is_bytes(self.types[self._names[0]])
        self._struct = self._arguments()

    @classmethod
    def of(
        cls, function: Callable[..., Any], *, skip: Collection[str] = (), codec: Codec = JSON
    ) -> Signature:
        """Read the parameters of a function, except those to skip: context and dependencies."""
        return cls(function, skip, codec)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[bytes, str]:
        """Encode the arguments of a call; return the bytes and the name of their encoding.

        Raises `InvalidInput` for arguments that do not fit the types of their parameters.
        """
        given = self._given(args, kwargs)
        if self._raw:
            name = self._names[0]
            value = given.get(name, self._parameters[name].default)
            if not isinstance(value, RAW):
                raise invalid(name, f"give bytes, not {type(value).__qualname__}")
            return bytes(value), BYTES
        try:
            data = encode_with(self._codec, given)
        except EncodeFault as error:
            raise self._unwritable(given, error) from error
        for name, value in given.items():
            fitting = self._plain[name]
            if fitting is not None and type(value) not in fitting:
                self.unbind(data, self._codec.name)  # what a worker would refuse is refused here already
                break
        return data, self._codec.name

    def unbind(self, data: bytes, encoding: str) -> dict[str, Any]:
        """Decode the arguments of a call by name; those that are left to their defaults are left out."""
        if self._raw:
            return {self._names[0]: data}
        if not data:
            return self._with_names({})
        if encoding == BYTES:
            encoding = ""  # who sends bytes to parameters of other types has written them as the codec does
        try:
            found = decode_value(data, encoding, self._struct, self._codec)
        except DecodeFault as fault:
            return self._otherwise(data, encoding, fault)
        if type(found) is not self._struct:  # the codec minds no types
            return self._otherwise(data, encoding, None)
        values = asdict(found)
        if len(self._required) == len(values):
            return values
        return {name: value for name, value in values.items() if value is not _ABSENT}

    def order(self, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return all values of a call, those of skipped parameters too, as positional and keyword arguments."""
        if not self._nameless:
            return [], values
        named = dict(values)
        placed = [named.pop(name, self._parameters[name].default) for name in self._nameless]
        return placed, named

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments, in the order of the function.

        A parameter whose type has no schema, such as one that only another codec can write, is any value. A sole
        `bytes` parameter, which takes the input as it is, has the format `binary`.
        """
        described = [name for name, type_ in self.types.items() if _has_schema(type_)]
        schemas, components = msgspec.json.schema_components(
            [self.types[name] for name in described], ref_template="#/$defs/{name}"
        )
        known = dict(zip(described, schemas, strict=True))
        properties = {name: dict(known.get(name, {})) for name in self._names}
        if self._raw:
            properties[self._names[0]] = {"type": "string", "format": "binary"}
        for name in self._names:
            if name not in self._required:
                with contextlib.suppress(TypeError, ValueError):
                    default = msgspec.to_builtins(self._parameters[name].default, str_keys=True)
                    properties[name]["default"] = default
        schema: dict[str, Any] = {
            "type": "object",
            "properties": properties,
            "required": [name for name in self._names if name in self._required],
            "additionalProperties": False,
        }
        return schema | ({"$defs": components} if components else {})

    def _given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name."""
        if not kwargs and len(args) == len(self._names) == len(self._places):
            return dict(zip(self._names, args, strict=True))
        if len(args) > len(self._places):
            raise InvalidInput(
                f"{self.name} takes {len(self._places)} arguments by place, {len(args)} were given"
            )
        given = dict(zip(self._places, args, strict=False))
        for name in kwargs:
            if name in given:
                raise invalid(name, f"{self.name} was given it twice, by place and by name")
        return self._with_names({**given, **kwargs})

    def _with_names(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments; raise `InvalidInput` for unknown names and for missing required ones."""
        if given.keys() <= self.types.keys() and given.keys() >= self._required:
            return given
        unknown = [name for name in given if name not in self.types]
        missing = [name for name in self._names if name in self._required and name not in given]
        if not unknown:
            raise invalid(missing[0], f"{self.name} needs it, and it is missing")
        takes = ", ".join(self._names) or "no arguments"
        problem = f"there is no such parameter: {self.name} takes {takes}"
        if unknown[1:]:
            problem = f"{problem}; unknown, too: {', '.join(unknown[1:_FEW])}"
        raise invalid(unknown[0], f"{problem}; missing: {', '.join(missing)}" if missing else problem)

    def _otherwise(self, data: bytes, encoding: str, fault: DecodeFault | None) -> dict[str, Any]:
        """Decode an input that is not an object of the right names and types: as the first parameter, or raise."""
        value = self._read(data, encoding, Any, self._names[0] if self._names else "input")
        if isinstance(value, dict) and not self.types.keys().isdisjoint(value):
            self._with_names(value)
            if fault is not None:
                raise invalid(fault.path, fault.text) from fault
            return value
        if (value is None or value == {}) and not self._required:
            return {}
        if not self._names:
            raise invalid("input", f"{self.name} takes no arguments")
        first = self._names[0]
        try:
            return self._with_names({first: self._read(data, encoding, self.types[first], first)})
        except InvalidInput as error:
            # The names are what is wrong, unless the object is nearly a value of the first parameter.
            if isinstance(value, dict) and error.field == first:
                self._refuse_names(value, error)
            raise

    def _refuse_names(self, given: dict[str, Any], whole: InvalidInput) -> None:
        """Raise for an object with wrong names; also say why it does not fit the first parameter, if it might."""
        try:
            self._with_names(given)
        except InvalidInput as error:
            if not given or _NO_OBJECT in whole.text:
                raise
            also = f"and as {whole.field} itself it does not fit: {whole.text}"
            raise invalid(error.field, f"{error.text}; {also}") from whole

    def _read(self, data: bytes, encoding: str, type_: Any, name: str) -> Any:
        try:
            return decode_value(data, encoding, type_, self._codec)
        except DecodeFault as fault:
            inside = "" if not fault.path or fault.path.startswith("[") else "."
            raise invalid(f"{name}{inside}{fault.path}", fault.text) from fault

    def _unwritable(self, given: Mapping[str, Any], fault: EncodeFault) -> InvalidInput:
        """Return an error that names the argument that cannot be encoded."""
        for name, value in given.items():
            try:
                encode_with(self._codec, value)
            except EncodeFault as reason:
                return invalid(name, str(reason))
        return InvalidInput(str(fault))

    def _arguments(self) -> type[msgspec.Struct]:
        """Return the struct type of all arguments, which are decoded and checked in one pass."""
        optional = [name for name in self._names if name not in self._required]
        fields: list[Any] = [(name, self.types[name]) for name in self._names if name in self._required]
        fields += [(name, self.types[name], _ABSENT) for name in optional]
        struct = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
        if isinstance(self._codec, JsonCodec):
            self._check_types(struct)
        return struct

    def _check_types(self, struct: type[msgspec.Struct]) -> None:
        try:
            check_type(struct)
        except TypeError:
            for name, type_ in self.types.items():
                try:
                    check_type(type_)
                except TypeError as error:
                    raise TypeError(f"{self.name}: {name}: {error}") from error
            raise


def _has_schema(type_: Any) -> bool:
    try:
        msgspec.json.schema(type_)
    except Exception:  # noqa: BLE001 - types of other libraries may refuse in ways of their own
        return False
    return True


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the evaluated annotations of a function."""
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(f"{name}: {error}: its annotations must name what its module can see") from error


def _is_bytes(type_: Any) -> bool:
    if get_origin(type_) is Annotated:
        return _is_bytes(get_args(type_)[0])
    return type_ is bytes


def _plain(type_: Any) -> tuple[type, ...] | None:
    """Return the simple types whose values fit a parameter without a check; None if any value fits."""
    if type_ is Any:
        return None
    types = get_args(type_) if get_origin(type_) in {Union, UnionType} else (type_,)
    return tuple(each for each in types if each in _SIMPLE)
