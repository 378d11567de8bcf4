"""What every store does before and after a command, once: checks on the way in, errors on the way out."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar, cast

from flowfabric.model.command import Command, ExecutionCommand, Question
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.ids import Partitions, check_execution_id
from flowfabric.storage.base import Clock, StoreTraits
from flowfabric.storage.wake import Hub, Listener

R = TypeVar("R")


class Front:
    """Base of stores that run the machine in this process."""

    def __init__(self, clock: Clock, partitions: Partitions) -> None:
        partitions.check()
        self._clock = clock
        self._partitions = partitions
        self.hub = Hub()

    @property
    def partitions(self) -> Partitions:
        """How ids are spread."""
        return self._partitions

    @property
    def traits(self) -> StoreTraits:
        """What this kind of store can do."""
        return StoreTraits()

    def now(self) -> int:
        """Return the store's time."""
        return self._clock()

    def expect_due(self, due_at: int) -> None:
        """Say that something is due then; 0 forgets what was said before."""
        self.hub.expect(due_at)

    def next_due(self) -> int:
        """Return that time, or an earlier one that has come up since."""
        return self.hub.horizon

    def subscribe(self, topics: Iterable[str], namespace: str = "") -> AbstractAsyncContextManager[Listener]:
        """Listen to topics, as far as one namespace has to do with them; empty: to all."""
        return self.hub.subscribe(topics, namespace)

    async def apply(self, command: Command[R]) -> R:
        """Decide one command; raise the error that refuses it."""
        self._check(command)
        (reply,) = await self._decide((command,))
        if isinstance(reply, FlowFabricError):
            raise reply
        return cast("R", reply)

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Decide several commands, each on its own; refusals are returned in place."""
        replies: list[Any] = [self._refusal(command) for command in commands]
        sound = [place for place, refusal in enumerate(replies) if refusal is None]
        answers = await self._decide([commands[place] for place in sound]) if sound else []
        for place, answer in zip(sound, answers, strict=True):
            replies[place] = answer
        return replies

    async def read(self, question: Question[R]) -> R:
        """Answer a question."""
        self._check(question)
        answer = await self._ask(question)
        if isinstance(answer, FlowFabricError):
            raise answer
        return cast("R", answer)

    def _decide(self, commands: Sequence[Command[Any]]) -> Awaitable[list[Any]]:
        raise NotImplementedError

    async def _ask(self, question: Question[Any]) -> Any:
        raise NotImplementedError

    def _check(self, command: Command[Any]) -> None:
        if isinstance(command, ExecutionCommand):
            check_execution_id(command.execution_id, self._partitions)
        command.check()

    def _refusal(self, command: Command[Any]) -> FlowFabricError | None:
        try:
            self._check(command)
        except FlowFabricError as error:
            return error
        return None
