"""Dependencies of handlers: clients, pools and the like, opened once for each worker."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, Final

Factory = Callable[[], Any]
"""A function, an async function, a generator function that yields once, or a context manager's class."""

provided: Final[Any] = type("Provided", (), {"__repr__": lambda _: "provided"})()
"""The default of a parameter that the worker fills in by its type; type checkers do not ask callers for it.

::

    @app.task
    async def fetch(url: str, *, http: Client = provided) -> str: ...
"""


class OpenedDependencies:
    """The dependencies that one worker has opened for its handlers."""

    def __init__(self, factories: Mapping[type, Factory], needed: frozenset[type]) -> None:
        self._factories = factories
        self._needed = needed
        self._stack = AsyncExitStack()
        self._values: dict[type, Any] = {}

    async def open(self) -> None:
        """Open the dependencies of all handlers; if one fails, close those that were opened before it."""
        try:
            for type_ in sorted(self._needed, key=lambda each: each.__qualname__):
                self._values[type_] = await _enter(self._stack, self._factories[type_])
        except BaseException:
            await self.close()
            raise

    def get(self, type_: type) -> Any:
        """Return the dependency of a type."""
        return self._values[type_]

    async def close(self) -> None:
        """Close all dependencies, the last one first."""
        self._values.clear()
        await self._stack.aclose()


async def _enter(stack: AsyncExitStack, factory: Factory) -> Any:
    if inspect.isasyncgenfunction(factory):
        made: Any = asynccontextmanager(_iterates(factory))()
    elif inspect.isgeneratorfunction(factory):
        made = contextmanager(_yields(factory))()
    else:
        made = factory()
    if inspect.isawaitable(made) and not isinstance(made, AbstractAsyncContextManager):
        made = await made
    if isinstance(made, AbstractAsyncContextManager):
        return await stack.enter_async_context(made)
    if isinstance(made, AbstractContextManager):
        return stack.enter_context(made)
    return made


def _iterates(factory: Factory) -> Callable[[], AsyncIterator[Any]]:
    return factory


def _yields(factory: Factory) -> Callable[[], Iterator[Any]]:
    return factory
