"""`ff bench`: measure how fast a store is from here."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any, Final

import msgspec

from flowfabric.cli.bench.measurement import BENCH_LANE, Benchmark, Measurement
from flowfabric.cli.support.progress import ProgressLine
from flowfabric.cli.support.session import CommandSession, add_store_command
from flowfabric.cli.support.target import is_server
from flowfabric.model import checks
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.limits import MAX_PAYLOAD_BYTES
from flowfabric.storage.resolve import without_password

ABOUT: Final = "measure how fast a store is from here, with small executions that are removed again"
MAX_VALUE: Final = 1_000_000


def add(commands: Any) -> None:
    """Add the parser of `ff bench`."""
    parser = add_store_command(commands, "bench", ABOUT, bench, creates=True)
    parser.add_argument(
        "--tasks", type=int, default=1_000, metavar="N", help="how many executions at most (default: 1000)"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        metavar="N",
        help="how long at most (default: 10); cleaning up comes on top",
    )
    parser.add_argument(
        "--concurrency", type=int, default=16, metavar="N", help="how many calls at once (default: 16)"
    )
    parser.add_argument(
        "--size", type=int, default=100, metavar="BYTES", help="how large each input is (default: 100)"
    )


async def bench(session: CommandSession) -> int:
    """Measure a store, and clean up even after a failure."""
    given = session.given
    checks.integer("tasks", given.tasks, 1, MAX_VALUE)
    checks.integer("concurrency", given.concurrency, 1, 1_000)
    checks.integer("size", given.size, 0, MAX_PAYLOAD_BYTES)
    checks.integer("seconds", math.ceil(given.seconds) if math.isfinite(given.seconds) else 0, 1, MAX_VALUE)
    benchmark = Benchmark(session.store, given.tasks, given.seconds, given.concurrency, given.size)
    async with ProgressLine("", quiet=session.json) as progress:
        try:
            measurements = await benchmark.run(progress)
        finally:
            with suppress(FlowFabricError):  # report why the measurement failed, not why the clean-up did
                await benchmark.clean_up(progress, purge=not is_server(session.url))
    _show(session, measurements)
    return 0


def _show(session: CommandSession, measurements: list[Measurement]) -> None:
    given, url = session.given, without_password(session.url)
    if session.json:
        session.output.json(
            {
                "store": url,
                "concurrency": given.concurrency,
                "size": given.size,
                "measures": [msgspec.structs.asdict(each) for each in measurements],
            }
        )
        return
    session.output.line(f"{url}, {given.concurrency} calls at once, {given.size} bytes each")
    session.output.table(
        ("", "count", "per second", "p50 ms", "p99 ms"),
        [
            (
                each.name,
                str(each.count),
                f"{each.per_second:.0f}" if each.per_second else "",
                f"{each.p50_ms:.2f}",
                f"{each.p99_ms:.2f}",
            )
            for each in measurements
        ],
    )
    if measurements[0].count < given.tasks or not measurements[-1].count:
        session.output.line(
            f"the time ran out before everything was done; --seconds gives more, lane {BENCH_LANE} is empty again"
        )
