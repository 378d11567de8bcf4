"""The tasks of an app: their definitions, and how a worker calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin

from flowfabric.app.dependencies import Factory, provided
from flowfabric.app.errors import UnknownTask
from flowfabric.codecs import Codec, Signature
from flowfabric.codecs.signature import hints_of
from flowfabric.model import checks
from flowfabric.model.errors import invalid
from flowfabric.model.kinds import DEFAULT_LANE
from flowfabric.worker.context.context import Context
from flowfabric.worker.context.sync_context import SyncContext
from flowfabric.worker.handlers import Executor, Handler
from flowfabric.worker.options import Options


@dataclass(frozen=True, slots=True)
class TaskDefinition:
    """A task as `@app.task` declared it."""

    kind: str
    function: Callable[..., Any]
    options: Options
    executor: Executor
    codec: Codec
    policy: bytes

    def handler(self, factories: Mapping[type, Factory]) -> Handler:
        """Return how a worker calls the task. Parameters of provided types are not arguments."""
        hints = hints_of(self.function)
        parameters = inspect.signature(self.function).parameters
        contexts = {name: _context_of(hints.get(name)) for name in parameters}
        context = [name for name, asked in contexts.items() if asked]
        self._check_context(context, contexts)
        self._check_hints(parameters)
        wanted = {
            name: hints.get(name)
            for name, each in parameters.items()
            if each.default is provided or _is_key(hints.get(name), factories)
        }
        for name, type_ in wanted.items():
            if not _is_key(type_, factories):
                shown = getattr(type_, "__qualname__", type_)
                raise TypeError(
                    f"{self.kind}: nothing provides {name}: {shown}; say app.provide({shown}, factory) first"
                )
        return Handler(
            kind=self.kind,
            function=self.function,
            signature=Signature.of(self.function, skip={*context, *wanted}, codec=self.codec),
            context="".join(context),
            dependencies={name: type_ for name, type_ in wanted.items() if isinstance(type_, type)},
            returns=hints.get("return", Any),
            executor=self.executor,
            lane=self.options.lane or DEFAULT_LANE,
            codec=self.codec,
        )

    def _check_hints(self, parameters: Mapping[str, inspect.Parameter]) -> None:
        """Refuse a context without a type, which would be taken for an argument."""
        first = next(iter(parameters.values()), None)
        if first is not None and first.name in {"ctx", "context"} and first.annotation is first.empty:
            kind = "Context" if self.executor == "loop" else "SyncContext"
            raise TypeError(
                f"{self.kind}: say of which type {first.name} is: {first.name}: {kind}; without one it is an argument"
            )

    def _check_context(self, names: list[str], asked: Mapping[str, Any]) -> None:
        if len(names) > 1:
            raise TypeError(f"{self.kind}: {' and '.join(names)} both ask for the context: one will do")
        fitting = Context if self.executor == "loop" else SyncContext
        if names and asked[names[0]] is not fitting:
            because = {"loop": "is written with async def", "thread": "is written with def"}
            raise TypeError(
                f"{self.kind}: {names[0]} must be a {fitting.__name__}, because the task "
                + because.get(self.executor, "runs in a process of its own")
            )


def _context_of(hint: Any) -> Any:
    """Return which context a parameter asks for, also as `ctx: Context | None = None`; None if it does not."""
    kinds = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    return next((kind for kind in kinds if kind in (Context, SyncContext)), None)


def _is_key(type_: Any, factories: Mapping[type, Factory]) -> bool:
    return isinstance(type_, type) and type_ in factories


class Registry:
    """The tasks of an app, by kind and by function, and the factories of their dependencies."""

    def __init__(self) -> None:
        self.by_kind: dict[str, TaskDefinition] = {}
        self.factories: dict[type, Factory] = {}
        self._by_function: dict[Callable[..., Any], TaskDefinition] = {}
        self._handlers: dict[str, Handler] = {}

    def add(self, task: TaskDefinition) -> None:
        """Add a task; raise if its kind or function is taken."""
        known = self.by_kind.get(task.kind)
        if known is not None:
            where = f"{known.function.__module__}.{known.function.__qualname__}"
            raise invalid(
                "name",
                f"{where} is the task {task.kind!r} already: give this one another name, or a new version",
            )
        if task.function in self._by_function:
            raise invalid("name", f"{task.function.__qualname__} is a task already, under another name")
        self.by_kind[task.kind] = task
        self._by_function[task.function] = task

    def provide(self, type_: type, factory: Factory) -> None:
        """Add a factory, and discard handlers that were made without it."""
        if type_ in self.factories:
            raise invalid("type", f"{type_.__qualname__} is provided already")
        self.factories[type_] = factory
        self._handlers.clear()

    def find(self, function: Callable[..., Any]) -> TaskDefinition:
        """Return the task of a function; raise `UnknownTask` if it has none."""
        if inspect.iscoroutine(function):
            function.close()  # it was never going to be awaited
            name = function.__qualname__
            raise UnknownTask(
                f"{name} was called, and is to be passed: write submit({name}, …), not submit({name}(…))"
            )
        if not callable(function):
            text = "give the task itself and then its arguments: submit(task, …), not submit(task(…))"
            raise UnknownTask(
                f"{function!r:.60} is of type {type(function).__qualname__}, and no task; {text}"
            )
        found = self._by_function.get(function)
        if found is None:
            name = getattr(function, "__qualname__", repr(function))
            raise UnknownTask(f"{name} is no task of this app: put @app.task over it")
        return found

    def handler(self, task: TaskDefinition) -> Handler:
        """Return how a worker calls a task."""
        found = self._handlers.get(task.kind)
        if found is None:
            found = self._handlers[task.kind] = task.handler(self.factories)
        return found

    def handlers(self) -> dict[str, Handler]:
        """Return how a worker calls each task, by kind."""
        return {kind: self.handler(task) for kind, task in self.by_kind.items()}


def kind_of(function: Callable[..., Any], name: str, version: int) -> str:
    """Return the kind of a task: the name of its function, and its version unless that is 1."""
    plain = name or getattr(function, "__name__", "")
    if plain == "<lambda>" or not plain:
        raise invalid("name", "a function without a name of its own needs one: @app.task(name=…)")
    if "@" in plain:
        raise invalid("name", f"{plain!r}: what stands after an @ is the version; say version=…")
    checks.integer("version", version, 1, 10**9)
    kind = plain if version == 1 else f"{plain}@{version}"
    checks.name("name", kind)
    return kind
