"""Bars for long work: on a terminal, and nowhere else."""

from __future__ import annotations

import asyncio
import io
import re

import pytest

from flowfabric.cli.support.progress import CLEAR_LINE, ProgressLine


class Terminal(io.StringIO):
    """Tells when something is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = asyncio.Event()

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        self.drawn.set()


async def test_a_bar_grows_and_goes() -> None:
    out = Terminal()
    async with ProgressLine("submitting", 40, stream=out) as progress:
        await out.drawn.wait()
        progress.done = 20
        while "20/40" not in out.getvalue():
            out.drawn.clear()
            await out.drawn.wait()
    first, *_, last = out.getvalue().split(CLEAR_LINE)[1:]
    assert re.fullmatch(r"submitting \[\.{30}\] 0/40 \d+m?s", first)
    assert re.search(r"submitting \[#{15}\.{15}\] 20/40 \d+m?s", out.getvalue())
    assert last == ""  # nothing of it stays


async def test_what_has_no_number_shows_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    out = Terminal()
    async with ProgressLine("comparing indexes with records", stream=out) as progress:
        await out.drawn.wait()
        assert re.fullmatch(r"comparing indexes with records … \d+m?s", progress.line())
    assert out.getvalue().split(CLEAR_LINE)[1] == "comparing indexes w"  # cut to the terminal


@pytest.mark.parametrize(("out", "quiet"), [(io.StringIO(), False), (None, True)])
async def test_programs_are_not_disturbed(out: io.StringIO | None, quiet: bool) -> None:
    to = out if out is not None else Terminal()
    async with ProgressLine("submitting", 2, quiet=quiet, stream=to) as progress:
        progress.done = 2
        await asyncio.sleep(0)
    assert to.getvalue() == ""
