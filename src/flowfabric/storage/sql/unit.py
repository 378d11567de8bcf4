"""The unit of work of the SQL stores: load a group of commands, decide it in memory, save what it changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowfabric.model.command import Command
from flowfabric.model.machine.group import run_group
from flowfabric.model.machine.workspace import Workspace
from flowfabric.storage.sql.cache import Cache
from flowfabric.storage.sql.load import Loader
from flowfabric.storage.sql.requests import Plan, Transaction
from flowfabric.storage.sql.save import Saver


class Unit:
    """Plans the transactions of one writer.

    A dialect whose only writer can tell whether others have written gives it a cache, which then lives from group to
    group; without one, every group reads all that it needs.
    """

    def __init__(self, cache: Cache | None = None) -> None:
        self._cache = cache

    def write(
        self, space: Workspace, commands: Sequence[Command[Any]], chances: Sequence[float]
    ) -> Transaction[list[Any]]:
        """Decide commands and save what they changed."""
        return Transaction(self._write(space, commands, chances), writes=True)

    def read(self, space: Workspace, question: Command[Any]) -> Transaction[Any]:
        """Answer a question."""
        return Transaction(self._read(space, question), writes=False)

    def _write(
        self, space: Workspace, commands: Sequence[Command[Any]], chances: Sequence[float]
    ) -> Plan[list[Any]]:
        cache = Cache() if self._cache is None else self._cache
        loader = Loader(space, cache)
        replies = yield from _decide(loader, commands, chances)
        yield from Saver(space, loader.keys, cache).save()
        return replies

    def _read(self, space: Workspace, question: Command[Any]) -> Plan[Any]:
        (reply,) = yield from _decide(Loader(space, Cache()), (question,), (0.0,))
        return reply


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
