"""Run `ff dev`: a server, a worker, the output of events, and the prompt."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, Final

from msgspec import Struct

from flowfabric.cli.dev.feed_printer import FeedPrinter
from flowfabric.cli.dev.questions import OpenQuestions
from flowfabric.cli.dev.terminal import Terminal, program_name
from flowfabric.cli.dev.worker import DevWorker
from flowfabric.cli.support.exit_codes import CommandError, ExitCode
from flowfabric.cli.support.output import Output
from flowfabric.cli.support.serve import serve_store
from flowfabric.cli.support.target import is_server, partition_counts
from flowfabric.logs import configure
from flowfabric.model.operations.read_list import FeedEntry
from flowfabric.model.operations.worker import ListWorkers
from flowfabric.storage import open_store
from flowfabric.storage.base import Commands
from flowfabric.storage.resolve import make_folder, store_url, without_password

KEYS: Final = (
    "type k and Enter to kill the worker (-9); a approves and n rejects what asks; r restarts the worker; "
    "q or Ctrl-C ends"
)

READY_SECONDS: Final = 10.0
"""How long the first submission waits for the worker to register."""
POLL_SECONDS: Final = 0.05


class DevOptions(Struct, frozen=True):
    """The options of `ff dev`."""

    target: str
    store: str = ""
    listen: str = ""
    submit: str = ""
    json: bool = False


async def run_dev(options: DevOptions) -> int:
    """Serve, work and print events until `q` or a signal."""
    url = store_url(options.store)
    if is_server(url):
        raise CommandError("ff dev starts its own server: name a store, not a server", ExitCode.USAGE)
    own_task = asyncio.current_task()
    assert own_task is not None
    with suppress(NotImplementedError):  # Windows has no SIGTERM handlers
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, own_task.cancel, "SIGTERM")
    configure(level="error")  # the warning about a missing token is of no use on a developer's machine
    output = Output(sys.stderr if options.json else None)
    async with AsyncExitStack() as stack:
        make_folder(url)
        store = await open_store(url, partitions=partition_counts())
        stack.push_async_callback(store.close)
        address = await stack.enter_async_context(serve_store(store, url, options.listen))
        questions = OpenQuestions(
            store, output, program_name(), f" --store {address}" if options.store else ""
        )

        async def handle(entry: FeedEntry, name: str) -> None:
            await questions.handle(entry, name, printer.print_line)

        printer = FeedPrinter(store, output, handle, Output() if options.json else None)
        await printer.skip()
        worker = DevWorker(options.target, url, output)
        stack.push_async_callback(worker.end)
        ready = partial(_wait_for_worker, store, worker, store.now())
        terminal = Terminal(store, worker, questions, output, url, options.submit, ready)
        stack.push_async_callback(terminal.end)
        output.paragraph(f"{address} serves {without_password(url)}")
        output.paragraph(
            f"open {address}/ in a browser to see where to go from there; {address}/docs shows every route"
        )
        output.paragraph(KEYS, "bold")
        output.paragraph(terminal.invitation(options.store, address))
        await questions.print_earlier(store.now(), printer.print_line)
        await _run_until_quit(terminal, output, printer.run(), worker.run(), worker.watch())
    return 0


async def _wait_for_worker(store: Commands, worker: DevWorker, since: int) -> None:
    """Wait, within limits, until the worker has registered, which it does after publishing its tasks."""
    with suppress(TimeoutError):
        async with asyncio.timeout(READY_SECONDS):
            while True:
                living = await store.read(ListWorkers())
                if any(each.worker_id == worker.name and each.registered_at >= since for each in living):
                    return
                await asyncio.sleep(POLL_SECONDS)


async def _run_until_quit(terminal: Terminal, output: Output, *work: Coroutine[Any, Any, None]) -> None:
    """Run the coroutines in the background until the terminal ends."""
    try:
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(each) for each in work]
            await terminal.run()
            for task in background:
                task.cancel()
    except ExceptionGroup as several:
        raise several.exceptions[0] from several
    except asyncio.CancelledError as error:
        output.is_line_open = output.is_terminal  # the terminal has written ^C
        output.line(f"ended by {error.args[0] if error.args else 'Ctrl-C'}")
        raise
