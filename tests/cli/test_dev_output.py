"""What `ff dev` tells of streams when a handler runs again."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from flowfabric.cli.dev.feed_printer import FeedPrinter
from flowfabric.cli.dev.questions import OpenQuestions
from flowfabric.cli.support.output import Output
from flowfabric.model.conditions import list_condition
from flowfabric.model.operations.read_list import FeedEntry
from flowfabric.model.operations.step import PutStep
from support.clock import ManualClock
from support.driver import Driver
from support.frames import append
from support.stores import STORES, half
from support.waiting import let_go, suspend


async def _ignore(_: FeedEntry, __: str) -> None:
    """Nothing answers here."""


@pytest.fixture(autouse=True)
def no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lines be as long as they are."""
    monkeypatch.delenv("COLUMNS", raising=False)


async def test_it_says_which_frames_are_superseded(tmp_path: Path) -> None:
    clock = ManualClock()
    async with STORES["sqlite"](tmp_path, clock, half) as store:
        ff, text, documents = Driver(store, clock), io.StringIO(), io.StringIO()
        await ff.seed()
        plain = FeedPrinter(store, Output(text), _ignore)
        programs = FeedPrinter(store, Output(io.StringIO()), _ignore, Output(documents))
        task = await ff.running()
        (first,) = await append(ff, task, b"intro")
        (last,) = await append(ff, task, b"kept", step="write")
        await ff.store.apply(
            PutStep(execution_id=task.execution_id, fence=task.fence, step_name="write", result=b"1")
        )
        for printer in (plain, programs):
            await printer.catch_up()
        await (await suspend(ff, task)).signal()
        task = await ff.claim_one()
        await append(ff, task, b"intro", b"half")
        for printer in (plain, programs):
            await printer.catch_up()
        await let_go(ff, task)
        await ff.complete(await ff.claim_one())
        for printer in (plain, programs):
            await printer.catch_up()
    said = [line.split("  ")[-1] for line in text.getvalue().splitlines()]
    told = [line for line in said if line.startswith(("»", "resumed by", "reclaimed by", "the handler"))]
    again = "the handler runs again: "
    assert [line.partition(" by")[0] for line in told] == [
        "» intro",
        "» kept",
        "resumed",
        f"{again}1 of its last 2 frames is superseded (not those of stored steps)",
        "» intro",
        "» half",
        "reclaimed",
        f"{again}its last 2 frames are superseded",
    ]
    lines = [json.loads(line) for line in documents.getvalue().splitlines()]
    one, two = (line for line in lines if line.get("event") == "superseded")
    assert one == {
        "execution_id": task.execution_id,
        "event": "superseded",
        "attempt_index": 0,
        "lease_epoch": 1,
        "from": first.entry_id,
        "to": last.entry_id,
        "by_epoch": 2,
        "kept_steps": ["write"],
    }
    assert (two["lease_epoch"], two["kept_steps"]) == (2, [])


async def test_a_question_is_told_with_its_message(tmp_path: Path) -> None:
    clock = ManualClock()
    async with STORES["sqlite"](tmp_path, clock, half) as store:
        ff, text = Driver(store, clock), io.StringIO()
        await ff.seed()
        output = Output(text)
        questions = OpenQuestions(store, output, "ff", "")

        async def handle(entry: FeedEntry, name: str) -> None:
            await questions.handle(entry, name, printer.print_line)

        printer = FeedPrinter(store, output, handle)
        asked = list_condition(("approve", "reject"), "any")
        await suspend(ff, await ff.running(), asked, message="Send to ann?")
        await printer.catch_up()
        await questions.print_earlier(clock(), printer.print_line)
    assert text.getvalue().count("asks you: Send to ann?\n") == 2
