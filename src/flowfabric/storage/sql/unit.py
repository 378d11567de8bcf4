"""The unit of work of the SQL stores: a group of commands, loaded together, decided in memory, saved together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowfabric.model.command import Command
from flowfabric.model.machine.group import run_group
from flowfabric.model.machine.workspace import Workspace
from flowfabric.storage.sql.load import Loader
from flowfabric.storage.sql.memory import Memory
from flowfabric.storage.sql.requests import Plan
from flowfabric.storage.sql.save import Saver


class Unit:
    """Plans groups for one writer, and remembers what it wrote between them."""

    def __init__(self) -> None:
        self._memory = Memory()

    def forget(self) -> None:
        """Drop what was remembered: somebody else has written, or a transaction was rolled back."""
        self._memory.forget()

    def write(
        self, space: Workspace, commands: Sequence[Command[Any]], chances: Sequence[float]
    ) -> Plan[list[Any]]:
        """Decide commands and save what they changed."""
        loader = Loader(space, self._memory)
        replies = yield from _decide(loader, commands, chances)
        saver = Saver(space, loader.keys, self._memory)
        yield from saver.save()
        return replies

    def read(self, space: Workspace, question: Command[Any]) -> Plan[Any]:
        """Answer a question; nothing is saved."""
        loader = Loader(space, Memory())
        replies = yield from _decide(loader, (question,), (0.0,))
        return replies[0]


def _decide(loader: Loader, commands: Sequence[Command[Any]], chances: Sequence[float]) -> Plan[list[Any]]:
    rounds = run_group(loader.space, commands, chances)
    try:
        request = next(rounds)
        while True:
            yield from loader.load(request)
            request = next(rounds)
    except StopIteration as done:
        replies: list[Any] = done.value
        return replies
