"""A store whose calls pass through a layer."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import lru_cache, partial
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from flowfabric.model.command import Command, Question
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.ids import Partitions
from flowfabric.model.operations.access import ApprovalLink, LinkRequest
from flowfabric.model.operations.claim import Claim, Claimed
from flowfabric.model.operations.stream import StreamPage, TailStream
from flowfabric.model.records import Execution
from flowfabric.storage.base import Commands, StoreTraits, Subscription, makes_links, waits_remotely
from flowfabric.worker.layers.base import Layer

R = TypeVar("R")
_WORDS: Final = re.compile(r"(?<!^)(?=[A-Z])")


@lru_cache(maxsize=256)
def method_of(command: type[Command[Any]]) -> str:
    """Return the name of a command in snake case: `PutStep` is `put_step`."""
    return _WORDS.sub("_", command.__name__).lower()


def layered(store: Commands, layers: Sequence[Layer]) -> Commands:
    """Return the store with layers around it; the first one is the outermost."""
    for layer in reversed(layers):
        store = LayeredStore(store, layer)
    return store


class LayeredStore:
    """A store with one layer around it."""

    def __init__(self, store: Commands, layer: Layer) -> None:
        self._store = store
        self._layer = layer

    @property
    def partitions(self) -> Partitions:
        """How ids are spread."""
        return self._store.partitions

    @property
    def traits(self) -> StoreTraits:
        """What the store can do. An engine runs on the store itself, without layers."""
        return replace(self._store.traits, is_direct=False)

    async def apply(self, command: Command[R]) -> R:
        """Decide one command."""
        return await self._call(method_of(type(command)), lambda: self._store.apply(command))

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Decide several commands; those that the layer refuses are answered in place."""
        replies: list[Any] = [self._refusal(command) for command in commands]
        passed = [index for index, refusal in enumerate(replies) if refusal is None]
        start = time.perf_counter()
        answers: list[Any] = []
        if passed:
            try:
                answers = await self._store.apply_many([commands[index] for index in passed])
            except FlowFabricError as error:
                for index in passed:
                    self._layer.after(method_of(type(commands[index])), time.perf_counter() - start, error)
                raise
        seconds = time.perf_counter() - start
        for index, answer in zip(passed, answers, strict=True):
            replies[index] = answer
            refusal = answer if isinstance(answer, FlowFabricError) else None
            self._layer.after(method_of(type(commands[index])), seconds, refusal)
        return replies

    async def read(self, question: Question[R]) -> R:
        """Answer a question."""
        return await self._call(method_of(type(question)), lambda: self._store.read(question))

    def subscribe(self, topics: Iterable[str]) -> AbstractAsyncContextManager[Subscription]:
        """Listen to topics. Layers do not see subscriptions."""
        return self._store.subscribe(topics)

    async def close(self) -> None:
        """Close the store."""
        await self._store.close()

    # For stores whose traits say so.

    async def claim_within(self, claim: Claim, wait_ms: int) -> Claimed:
        """Claim, and wait up to `wait_ms` for work if there is none."""
        assert waits_remotely(self._store)
        return await self._call(method_of(Claim), partial(self._store.claim_within, claim, wait_ms))

    async def tail_within(self, question: TailStream, wait_ms: int) -> StreamPage:
        """Read the frames after a cursor, and wait up to `wait_ms` for one if there are none."""
        assert waits_remotely(self._store)
        return await self._call(method_of(TailStream), partial(self._store.tail_within, question, wait_ms))

    async def end_within(self, execution_id: str, wait_ms: int) -> Execution:
        """Return the execution once it has ended, or as it is after `wait_ms`."""
        assert waits_remotely(self._store)
        return await self._call("wait_for_end", partial(self._store.end_within, execution_id, wait_ms))

    async def make_link(self, link: LinkRequest) -> ApprovalLink:
        """Make an approval link."""
        assert makes_links(self._store)
        return await self._call("make_link", partial(self._store.make_link, link))

    def _refusal(self, command: Command[Any]) -> FlowFabricError | None:
        method = method_of(type(command))
        try:
            self._layer.before(method)
        except FlowFabricError as error:
            self._layer.after(method, 0.0, error)
            return error
        return None

    async def _call(self, method: str, call: Callable[[], Awaitable[R]]) -> R:
        try:
            self._layer.before(method)
        except FlowFabricError as error:
            self._layer.after(method, 0.0, error)
            raise
        start = time.perf_counter()
        try:
            reply = await call()
        except FlowFabricError as error:
            self._layer.after(method, time.perf_counter() - start, error)
            raise
        self._layer.after(method, time.perf_counter() - start, None)
        return reply
