"""What belongs to a public name, read from the code: signatures, attributes, methods, and what is said about each."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from tools.docstrings import docstring

WIDE: Final = 100
_TYPES: Final = {
    "R_co": "R",
    "Unpack[TaskOptions]": "Options",
    "Unpack[SubmitOptions]": "Options",
    "Run[Any]": "Run[R]",
    "Call[Any]": "Call[R]",
}
"""How annotations are read by people."""


class Attribute(NamedTuple):
    """Something that is read."""

    name: str
    kind: str
    note: str
    owner: type


class Method(NamedTuple):
    """Something that is called."""

    name: str
    signature: str
    note: str
    owner: type


def ours(kind: type) -> list[type]:
    """Return a class and those of its bases that are ours, but not what all errors have in common."""
    return [
        base
        for base in kind.__mro__
        if base.__module__.startswith("flowfabric") and base.__module__ != "flowfabric.model.errors"
    ] or [kind]


# Attributes.


def attributes(kind: type) -> list[Attribute]:
    """Collect what can be read from an object: fields, properties, and what its constructor sets."""
    found: dict[str, Attribute] = {}
    for base in ours(kind):
        for attribute in (*_fields(base), *_properties(base), *_set_by_constructor(base)):
            found.setdefault(attribute.name, attribute)
    return list(found.values())


def _fields(kind: type) -> Iterator[Attribute]:
    for node, note in _with_notes(_source(kind).body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and _public(node.target.id):
            yield Attribute(node.target.id, _type(ast.unparse(node.annotation)), note, kind)


def _properties(kind: type) -> Iterator[Attribute]:
    for name, value in vars(kind).items():
        getter = value.fget if isinstance(value, property) else getattr(value, "func", None)
        if _public(name) and inspect.isfunction(getter):
            yield Attribute(name, _type(getter.__annotations__.get("return", "")), docstring(getter), kind)


def _set_by_constructor(kind: type) -> Iterator[Attribute]:
    init = next((node for node in _source(kind).body if getattr(node, "name", "") == "__init__"), None)
    if not isinstance(init, ast.FunctionDef):
        return
    given = {each.arg: each.annotation for each in (*init.args.args, *init.args.kwonlyargs)}
    for node, note in _with_notes(init.body):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if not (isinstance(target, ast.Attribute) and _public(target.attr) and note):
            continue
        value = getattr(node, "value", None)
        annotation = getattr(node, "annotation", None)
        if annotation is None and isinstance(value, ast.Name):
            annotation = given.get(value.id)
        if annotation is None and isinstance(value, ast.Call) and _is_class(value.func):
            annotation = value.func
        yield Attribute(target.attr, _type(ast.unparse(annotation)) if annotation else "", note, kind)


def _is_class(function: ast.expr) -> bool:
    """Whether a call makes an object, as its name says."""
    return ast.unparse(function).rpartition(".")[2][:1].isupper()


def _with_notes(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Go through statements, each with the text that stands below it."""
    for node, after in zip(body, [*body[1:], None], strict=True):
        said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        yield node, " ".join(str(after.value.value).split()) if said else ""  # type: ignore[union-attr]


@functools.cache
def _source(kind: type) -> ast.ClassDef:
    node = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(node, ast.ClassDef)
    return node


# Methods.


def methods(kind: type) -> list[Method]:
    """Collect what can be called, in the order of the source; what is inherited comes last."""
    found: dict[str, Method] = {}
    for base in ours(kind):
        for name, value in vars(base).items():
            function = getattr(value, "__func__", value)
            if _public(name) and inspect.isfunction(function):
                found.setdefault(name, Method(name, signature(function), docstring(function), base))
    return list(found.values())


def signature(function: Callable[..., Any], name: str = "") -> str:
    """Write how a function is called, as its source does, without what a method is called on."""
    parameters = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in {"self", "cls"}
    ]
    returns = "" if name else _type(function.__annotations__.get("return", "")).removeprefix("Any")
    head = name or ("async def " if _awaits(function) else "def ") + function.__name__
    end = f" -> {returns}" if returns else ""
    words = list(_parameters(parameters, function))
    flat = f"{head}({', '.join(words)}){end}"
    if len(flat) <= WIDE:
        return flat
    return f"{head}(\n" + "".join(f"    {word},\n" for word in words) + f"){end}"


def _awaits(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function)


def _parameters(parameters: list[inspect.Parameter], function: Callable[..., Any]) -> Iterator[str]:
    kinds = [each.kind for each in parameters]
    for place, each in enumerate(parameters):
        stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(each.kind.name, "")
        first_named = each.kind is each.KEYWORD_ONLY and each.KEYWORD_ONLY not in kinds[:place]
        if first_named and each.VAR_POSITIONAL not in kinds[:place]:
            yield "*"
        plain = each.annotation in {each.empty, "Any"} and (stars or each.annotation is each.empty)
        typed = "" if plain else f": {_type(each.annotation)}"
        yield f"{stars}{each.name}{typed}{_default(each, function)}"
        if each.kind is each.POSITIONAL_ONLY and kinds[place + 1 : place + 2] != [each.POSITIONAL_ONLY]:
            yield "/"


def _default(parameter: inspect.Parameter, function: Callable[..., Any]) -> str:
    value = parameter.default
    if value is parameter.empty:
        return ""
    if isinstance(value, str):
        return f" = {json.dumps(value, ensure_ascii=False)}"
    if value == b"":
        return ' = b""'
    if value is None or isinstance(value, bool | int | float | tuple):
        return f" = {value!r}"
    named = (name for name, each in vars(sys.modules[function.__module__]).items() if each is value)
    return f" = {next(named, '…')}"


def _type(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    for written, read in _TYPES.items():
        text = text.replace(written, read)
    return text


def _public(name: str) -> bool:
    return not name.startswith("_")
