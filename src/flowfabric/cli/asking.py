"""What waits for a person while `ff dev` runs, and how to answer it."""

from __future__ import annotations

from collections.abc import Callable

from flowfabric.cli.signalling import APPROVE, answer
from flowfabric.model.contracts.reads import FeedEntry, ListWaitpoints, ReadInbox, WaitpointView
from flowfabric.model.errors import NotFound
from flowfabric.model.state import Public
from flowfabric.storage.base import Commands
from flowfabric.worker.steps import SLEEPING

Tell = Callable[[int, str, str, str], None]


class Questions:
    """Remembers what was asked for; the last question is the one that a short answer is for."""

    def __init__(self, store: Commands, program: str, elsewhere: str) -> None:
        self._store = store
        self._program = program
        self._elsewhere = elsewhere
        """What a command in another terminal needs besides, to find this store."""
        self._asked: dict[str, None] = {}

    @property
    def last(self) -> str:
        """The execution that asked last and has no answer yet, or nothing."""
        return next(reversed(self._asked), "")

    async def before(self) -> int:
        """Count what has been waiting since before this began."""
        return len((await self._store.read(ReadInbox(limit=1_000))).waitpoints)

    async def hear(self, entry: FeedEntry, name: str, tell: Tell) -> None:
        """Ask when something begins to wait; forget it when it goes on."""
        event = entry.event
        if event.to_state != Public.SUSPENDED:
            if event.to_state != event.from_state:
                self._asked.pop(entry.execution_id, None)
            return
        if event.event != "suspended":
            return
        try:
            found = (await self._store.read(ListWaitpoints(execution_id=entry.execution_id))).waitpoints
        except NotFound:  # it is gone already
            return
        for view in found:
            if view.reason_code == SLEEPING:
                continue
            tell(event.at, name, self._question(view), "magenta")

    def _question(self, view: WaitpointView) -> str:
        names, line = view.required_signal_names, f"{self._program} {answer(view)}{self._elsewhere}"
        if APPROVE in names or not names:
            self._asked.pop(view.execution_id, None)
            self._asked[view.execution_id] = None
            return f"asks you: a and Enter approves, n rejects (in another terminal: {line})"
        return f"waits for {' or '.join(names)}: {line}"
