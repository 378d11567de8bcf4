"""What waits for a person while `ff dev` runs, and how to answer it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from flowfabric.cli.desk import short_id
from flowfabric.cli.screen import Screen, printable_lines
from flowfabric.cli.signalling import APPROVE, answer
from flowfabric.engine import every_waitpoint
from flowfabric.model.errors import NotFound
from flowfabric.model.operations.read import GetExecution
from flowfabric.model.operations.read_list import FeedEntry
from flowfabric.model.operations.signal import ReadInbox
from flowfabric.model.operations.suspend_waitpoint import WaitpointView
from flowfabric.model.state import Public
from flowfabric.storage.base import Commands
from flowfabric.worker.steps.journal import SLEEPING

NEWEST: Final = 3
"""So many questions from before are asked again."""
Tell = Callable[[int, str, str, str], None]


class Questions:
    """Remembers what was asked for; the last question is the one that a short answer is for."""

    def __init__(self, store: Commands, screen: Screen, program: str, elsewhere: str) -> None:
        self._store = store
        self._screen = screen
        self._program = program
        self._elsewhere = elsewhere
        """What a command in another terminal needs besides, to find this store."""
        self._asked: dict[str, None] = {}

    @property
    def last(self) -> str:
        """The execution that asked last and has no answer yet, or nothing."""
        return next(reversed(self._asked), "")

    async def before(self, now: int, tell: Tell) -> None:
        """Tell what has been waiting since before this began: how much, and the newest questions."""
        found = (await self._store.read(ReadInbox(limit=1_000))).waitpoints
        if not found:
            return
        self._screen.paragraph(f"{len(found)} waitpoints are open from before; type waitpoints to see them")
        for view in [each for each in found if each.reason_code != SLEEPING][-NEWEST:]:
            with suppress(NotFound):  # it has gone on meanwhile
                run = await self._store.read(GetExecution(execution_id=view.execution_id))
                name = f"{run.execution_kind} {short_id(run.execution_id)[:6]}"
                tell(now, name, self._question(view), "magenta")

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
            found = await every_waitpoint(self._store, entry.execution_id)
        except NotFound:  # it is gone already
            return
        for view in found:
            if view.reason_code == SLEEPING:
                continue
            tell(event.at, name, self._question(view), "magenta")

    def _question(self, view: WaitpointView) -> str:
        names, line = view.required_signal_names, f"{self._program} {answer(view)}{self._elsewhere}"
        message = printable_lines(view.message)
        if APPROVE in names or not names:
            self._asked.pop(view.execution_id, None)
            self._asked[view.execution_id] = None
            how = f"a and Enter approves, n rejects; in another terminal:\n{line}"
            return f"asks you: {message}\n{how}" if message else f"asks you: {how}"
        asked = f"asks: {message}\n" if message else ""
        return f"{asked}waits for {' or '.join(names)}:\n{line}"
