"""What `ff dev` tells of streams when a handler runs again."""

from __future__ import annotations

import io
import json
from pathlib import Path

from flowfabric.cli.narrator import Narrator
from flowfabric.cli.screen import Screen
from flowfabric.model.contracts.reads import FeedEntry
from flowfabric.model.contracts.streams import PutStep
from support.clock import ManualClock
from support.driver import Driver
from support.frames import append
from support.stores import STORES, half
from support.waiting import let_go, suspend


async def _heard(_: FeedEntry, __: str) -> None:
    """Nothing answers here."""


async def test_it_says_which_frames_are_superseded(tmp_path: Path) -> None:
    clock = ManualClock()
    async with STORES["sqlite"](tmp_path, clock, half) as store:
        ff, text, documents = Driver(store, clock), io.StringIO(), io.StringIO()
        await ff.seed()
        plain = Narrator(store, Screen(text), _heard)
        programs = Narrator(store, Screen(io.StringIO()), _heard, Screen(documents))
        task = await ff.running()
        (first,) = await append(ff, task, b"kept", step="write")
        await ff.store.apply(
            PutStep(execution_id=task.execution_id, fence=task.fence, step_name="write", result=b"1")
        )
        (last,) = await append(ff, task, b"intro")
        for narrator in (plain, programs):
            await narrator.catch_up()
        await (await suspend(ff, task)).signal()
        task = await ff.claim_one()
        await append(ff, task, b"intro", b"half")
        for narrator in (plain, programs):
            await narrator.catch_up()
        await let_go(ff, task)
        await ff.complete(await ff.claim_one())
        for narrator in (plain, programs):
            await narrator.catch_up()
    said = [line.split("  ")[-1] for line in text.getvalue().splitlines()]
    told = [line for line in said if line.startswith(("»", "resumed by", "reclaimed by", "the last"))]
    assert [line.partition(" superseded")[0].partition(" by")[0] for line in told] == [
        "» kept", "» intro", "resumed", "the last frame above is", "» intro", "» half", "reclaimed",
        "the last 2 frames above are",
    ]  # fmt: skip
    lines = [json.loads(line) for line in documents.getvalue().splitlines()]
    one, two = (line for line in lines if line.get("event") == "superseded")
    assert one == {
        "execution_id": task.execution_id, "event": "superseded", "attempt_index": 0, "lease_epoch": 1,
        "from": first.entry_id, "to": last.entry_id, "by_epoch": 2, "kept_steps": ["write"],
    }  # fmt: skip
    assert (two["lease_epoch"], two["kept_steps"]) == (2, [])
