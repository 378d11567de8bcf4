"""Print what waits for a person while `ff dev` runs, and how to answer it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from flowfabric.cli.support.output import Output
from flowfabric.cli.support.text import printable_lines, short_id
from flowfabric.cli.support.waitpoints import APPROVE, answer_command
from flowfabric.engine import every_waitpoint
from flowfabric.model.errors import NotFound
from flowfabric.model.operations.read import GetExecution
from flowfabric.model.operations.read_list import FeedEntry
from flowfabric.model.operations.signal import ReadInbox
from flowfabric.model.operations.suspend_waitpoint import WaitpointView
from flowfabric.model.state import Public
from flowfabric.storage.base import Commands
from flowfabric.worker.steps.journal import SLEEPING

MAX_REPEATED: Final = 3
"""The number of earlier questions that are asked again at the start."""
PrintLine = Callable[[int, str, str, str], None]


class OpenQuestions:
    """Prints questions and remembers them; `a` and `n` answer the last one."""

    def __init__(self, store: Commands, output: Output, program: str, store_option: str) -> None:
        self._store = store
        self._output = output
        self._program = program
        self._store_option = store_option
        """The option that a command in another terminal needs to find this store."""
        self._open: dict[str, None] = {}

    @property
    def last(self) -> str:
        """The execution that asked last and has no answer yet, or an empty string."""
        return next(reversed(self._open), "")

    async def print_earlier(self, now: int, print_line: PrintLine) -> None:
        """Print how many waitpoints were open before, and the newest questions among them."""
        found = (await self._store.read(ReadInbox(limit=1_000))).waitpoints
        if not found:
            return
        self._output.paragraph(f"{len(found)} waitpoints are open from before; type waitpoints to see them")
        for view in [each for each in found if each.reason_code != SLEEPING][-MAX_REPEATED:]:
            with suppress(NotFound):  # it has continued meanwhile
                run = await self._store.read(GetExecution(execution_id=view.execution_id))
                name = f"{run.execution_kind} {short_id(run.execution_id)[:6]}"
                print_line(now, name, self._question(view), "magenta")

    async def handle(self, entry: FeedEntry, name: str, print_line: PrintLine) -> None:
        """Print a question when an execution begins to wait; forget it when the execution continues."""
        event = entry.event
        if event.to_state != Public.SUSPENDED:
            if event.to_state != event.from_state:
                self._open.pop(entry.execution_id, None)
            return
        if event.event != "suspended":
            return
        try:
            found = await every_waitpoint(self._store, entry.execution_id)
        except NotFound:  # it is purged already
            return
        for view in found:
            if view.reason_code == SLEEPING:
                continue
            print_line(event.at, name, self._question(view), "magenta")

    def _question(self, view: WaitpointView) -> str:
        names, line = (
            view.required_signal_names,
            f"{self._program} {answer_command(view)}{self._store_option}",
        )
        message = printable_lines(view.message)
        if APPROVE in names or not names:
            self._open.pop(view.execution_id, None)
            self._open[view.execution_id] = None
            how = f"a and Enter approves, n rejects; in another terminal:\n{line}"
            return f"asks you: {message}\n{how}" if message else f"asks you: {how}"
        asked = f"asks: {message}\n" if message else ""
        return f"{asked}waits for {' or '.join(names)}:\n{line}"
