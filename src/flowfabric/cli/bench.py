"""`ff bench`: how fast a store is from here."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any, Final

import msgspec

from flowfabric.cli.desk import SERVER, Desk, command
from flowfabric.cli.measuring import HOME, Bench, Measure
from flowfabric.cli.progress import Progress
from flowfabric.model import checks
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.limits import MAX_PAYLOAD_BYTES
from flowfabric.storage.resolve import family, without_password

ABOUT: Final = "measure how fast a store is from here, with small work of its own that is removed again"
MOST: Final = 1_000_000


def add(commands: Any) -> None:
    """Describe the command."""
    parser = command(commands, "bench", ABOUT, bench, creates=True)
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


async def bench(desk: Desk) -> int:
    """Measure, and clean up however that ended."""
    given = desk.given
    checks.integer("tasks", given.tasks, 1, MOST)
    checks.integer("concurrency", given.concurrency, 1, 1_000)
    checks.integer("size", given.size, 0, MAX_PAYLOAD_BYTES)
    checks.integer("seconds", math.ceil(given.seconds) if math.isfinite(given.seconds) else 0, 1, MOST)
    measuring = Bench(desk.store, given.tasks, given.seconds, given.concurrency, given.size)
    async with Progress("", quiet=desk.json) as progress:
        try:
            found = await measuring.run(progress)
        finally:
            with suppress(FlowFabricError):  # what made it fail is told, not what followed from that
                await measuring.clean_up(progress, remove=family(desk.url) not in SERVER)
    _tell(desk, found)
    return 0


def _tell(desk: Desk, found: list[Measure]) -> None:
    given, url = desk.given, without_password(desk.url)
    if desk.json:
        desk.screen.json(
            {
                "store": url,
                "concurrency": given.concurrency,
                "size": given.size,
                "measures": [msgspec.structs.asdict(each) for each in found],
            }
        )
        return
    desk.screen.line(f"{url}, {given.concurrency} calls at once, {given.size} bytes each")
    desk.screen.table(
        ("", "count", "per second", "p50 ms", "p99 ms"),
        [
            (
                each.name, str(each.count), f"{each.per_second:.0f}" if each.per_second else "",
                f"{each.p50_ms:.2f}", f"{each.p99_ms:.2f}",
            )
            for each in found
        ],
    )  # fmt: skip
    if found[0].count < given.tasks or not found[-1].count:
        desk.screen.line(
            f"the time was over before all was done; --seconds gives more, lane {HOME} is empty again"
        )
