"""What `ff dev` does: serves a store, keeps a worker running, tells what happens, and does what is typed."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, Final

from msgspec import Struct

from flowfabric.cli.asking import Questions
from flowfabric.cli.desk import partitions
from flowfabric.cli.dev_terminal import Terminal, program
from flowfabric.cli.dev_worker import DevWorker
from flowfabric.cli.exits import Exit, Refused
from flowfabric.cli.narrator import Narrator
from flowfabric.cli.screen import Screen
from flowfabric.cli.serving import served
from flowfabric.model.operations.read_list import FeedEntry
from flowfabric.model.operations.worker import ListWorkers
from flowfabric.server.observe.logs import configure
from flowfabric.storage import open_store
from flowfabric.storage.base import Commands
from flowfabric.storage.resolve import make_folder, store_url, without_password

KEYS: Final = (
    "type k and Enter to kill the worker (-9); a approves and n rejects what asks; r starts the worker anew; "
    "q or Ctrl-C ends"
)

READY_SECONDS: Final = 10.0
"""How long the first submission waits for the worker."""
LOOK_SECONDS: Final = 0.05


class Asked(Struct, frozen=True):
    """What the command line says."""

    target: str
    store: str = ""
    listen: str = ""
    submit: str = ""
    json: bool = False


async def develop(asked: Asked) -> int:
    """Serve, work and tell until told to stop."""
    url = store_url(asked.store)
    if url.startswith("http"):
        raise Refused("ff dev brings a server of its own: name a store, not a server", Exit.USAGE)
    mine = asyncio.current_task()
    assert mine is not None
    with suppress(NotImplementedError):  # on Windows there is no such signal
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, mine.cancel, "SIGTERM")
    configure(level="error")  # that nobody needs a token is no news where one person works
    screen = Screen(sys.stderr if asked.json else None)
    async with AsyncExitStack() as stack:
        make_folder(url)
        store = await open_store(url, partitions=partitions())
        stack.push_async_callback(store.close)
        address = await stack.enter_async_context(served(store, url, asked.listen))
        questions = Questions(store, screen, program(), f" --store {address}" if asked.store else "")

        async def hear(entry: FeedEntry, name: str) -> None:
            await questions.hear(entry, name, narrator.tell)

        narrator = Narrator(store, screen, hear, Screen() if asked.json else None)
        await narrator.skip()
        worker = DevWorker(asked.target, url, screen)
        stack.push_async_callback(worker.end)
        ready = partial(_until_registered, store, worker, store.now())
        terminal = Terminal(store, worker, questions, screen, url, asked.submit, ready)
        stack.push_async_callback(terminal.end)
        screen.paragraph(f"{address} serves {without_password(url)}")
        screen.paragraph(
            f"open {address}/ in a browser to see where to go from there; {address}/docs shows every route"
        )
        screen.paragraph(KEYS, "bold")
        screen.paragraph(terminal.invitation(asked.store, address))
        await questions.before(store.now(), narrator.tell)
        await _until_told(terminal, screen, narrator.run(), worker.keep(), worker.watch())
    return 0


async def _until_registered(store: Commands, worker: DevWorker, since: int) -> None:
    """Wait until the worker has registered, which it does once its tasks are published; not for ever."""
    with suppress(TimeoutError):
        async with asyncio.timeout(READY_SECONDS):
            while True:
                living = await store.read(ListWorkers())
                if any(each.worker_id == worker.name and each.registered_at >= since for each in living):
                    return
                await asyncio.sleep(LOOK_SECONDS)


async def _until_told(terminal: Terminal, screen: Screen, *work: Coroutine[Any, Any, None]) -> None:
    """Do everything at once until the person at the terminal wants no more."""
    try:
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(each) for each in work]
            await terminal.run()
            for task in background:
                task.cancel()
    except ExceptionGroup as several:
        raise several.exceptions[0] from several
    except asyncio.CancelledError as error:
        screen.open = screen.terminal  # the terminal has written ^C behind whatever stood there
        screen.line(f"ended by {error.args[0] if error.args else 'Ctrl-C'}")
        raise
