"""Measure how long one call of each hot operation occupies the server, by the server's own clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from bench.measures import quantile
from bench.places import Place, fresh
from bench.servers import admins, cpu_seconds
from bench.settings import Report, Settings
from bench.waits import deliver, suspend
from bench.work import claim_of, creation, run_loop
from flowfabric.model.command import Command
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.operations.claim import Task
from flowfabric.model.operations.finish import Complete, Fail, RetryScheduled
from flowfabric.model.operations.lease import Renew
from flowfabric.model.operations.step import PutStep
from flowfabric.model.operations.stream import AppendFrames, FrameInput
from flowfabric.storage.base import Upkeep

R = TypeVar("R")

BATCH = 32
FRAMES = (1, 32, 256)
WAITPOINTS = 8
SAMPLE = 5
"""Read the server's log after so many calls; reading it does not change the median."""
FRAME = b"x" * 64
RETRIES = b'{"retry_policy": {"max_retries": 3}}'


class Row(NamedTuple):
    """The cost of one operation in the server."""

    operation: str
    calls: int
    round_trips: int
    """Round trips per operation."""
    commands: int
    """Server commands per operation: the call itself, and every command inside the function."""
    min_us: int
    p50_us: int
    p99_us: int
    max_us: int
    cpu_us: int
    """Processor time of the whole server per operation, including reading the request and writing the reply."""


class Stopwatch:
    """Reads from the server's own log how long each call took inside it."""

    def __init__(self, store: Upkeep, nodes: list[Any]) -> None:
        self._store = store
        self._nodes = nodes
        self.rows: list[Row] = []
        for node in nodes:
            node.config_set("slowlog-max-len", 1_000_000)
            # Commands inside a function are logged too, which takes time; they are all shorter than that.
            node.config_set("slowlog-log-slower-than", 10)

    async def time(self, operation: str, commands: Sequence[Command[R]]) -> list[R]:
        """Apply commands one after another and collect what the server logged."""
        for node in self._nodes:
            node.slowlog_reset()
        used = cpu_seconds(self._nodes)
        replies: list[R] = []
        counts: list[tuple[int, int]] = []
        for command in commands[:SAMPLE]:
            before = self._counters()
            replies.append(await self._store.apply(command))
            counts.append(_counted(before, self._counters()))
        replies += [await self._store.apply(command) for command in commands[SAMPLE:]]
        used = cpu_seconds(self._nodes) - used
        log = [entry for node in self._nodes for entry in node.slowlog_get(-1)]
        times = sorted(entry["duration"] for entry in log if _is_function(entry))
        assert times, f"no function was called for {operation}"
        self.rows.append(
            Row(
                operation=operation,
                calls=len(commands),
                round_trips=quantile(sorted(trips for trips, _ in counts), 0.5),
                commands=quantile(sorted(inside for _, inside in counts), 0.5),
                min_us=times[0],
                p50_us=quantile(times, 0.5),
                p99_us=quantile(times, 0.99),
                max_us=times[-1],
                cpu_us=round(used / len(commands) * 1e6),
            )
        )
        return replies

    def _counters(self) -> list[dict[str, int]]:
        return [node.info("stats") for node in self._nodes]


def _is_function(entry: dict[str, Any]) -> bool:
    return bytes(entry["command"]).startswith(b"FCALL")


def _counted(before: list[dict[str, int]], after: list[dict[str, int]]) -> tuple[int, int]:
    """Return the number of round trips and of server commands.

    A large request is read in several pieces and a large reply written in several, but no operation has both. One of
    each is the question for these numbers.
    """
    asked, answered, done = (
        sum(new[name] - old[name] - 1 for old, new in zip(before, after, strict=True))
        for name in ("total_reads_processed", "total_writes_processed", "total_commands_processed")
    )
    return min(asked, answered), done


async def create(store: Upkeep, count: int, settings: Settings, policy: bytes = b"") -> None:
    """Create executions, without measuring."""
    body = settings.body()
    replies = await store.apply_many([creation(store, body, policy=policy) for _ in range(count)])
    assert not any(isinstance(reply, FlowFabricError) for reply in replies), replies


async def holding(store: Upkeep, count: int, settings: Settings, policy: bytes = b"") -> list[Task]:
    """Claim the given number of tasks, without measuring."""
    await create(store, count, settings, policy)
    tasks: list[Task] = []
    while len(tasks) < count:
        tasks += (await store.apply(claim_of("w", min(BATCH, count - len(tasks))))).tasks
    return tasks


async def measure(store: Upkeep, nodes: list[Any], settings: Settings) -> list[Row]:
    """Measure every hot operation on a series of executions."""
    watch, count, body = Stopwatch(store, nodes), settings.tasks, settings.body()
    await watch.time("create", [creation(store, body) for _ in range(count)])
    claims = await watch.time("claim 1", [claim_of("w") for _ in range(count)])
    tasks = [task for claim in claims for task in claim.tasks]
    assert len(tasks) == count
    await watch.time("claim none", [claim_of("w") for _ in range(count)])
    await watch.time("renew", [Renew(execution_id=t.execution_id, fence=t.fence) for t in tasks])
    await watch.time(
        "put step",
        [PutStep(execution_id=t.execution_id, fence=t.fence, step_name="s", result=b"{}") for t in tasks],
    )
    for size in FRAMES:
        frames = (FrameInput(FRAME),) * size
        await watch.time(
            f"append {size}",
            [AppendFrames(execution_id=t.execution_id, fence=t.fence, frames=frames) for t in tasks],
        )
    await watch.time("complete with a stream", completions(tasks))
    await watch.time("complete", completions(await holding(store, count, settings)))
    await measure_batches(watch, store, settings)
    await measure_waits(watch, store, settings)
    tasks = await holding(store, count, settings, RETRIES)
    failed = await watch.time(
        "fail with retry",
        [
            Fail(execution_id=t.execution_id, fence=t.fence, reason="no", retry_after_ms=3_600_000)
            for t in tasks
        ],
    )
    assert all(isinstance(reply, RetryScheduled) for reply in failed)
    return watch.rows


def completions(tasks: Sequence[Task]) -> list[Complete]:
    return [Complete(execution_id=task.execution_id, fence=task.fence, result=b"{}") for task in tasks]


async def measure_batches(watch: Stopwatch, store: Upkeep, settings: Settings) -> None:
    """Measure claims of many tasks."""
    rounds = max(1, settings.tasks // BATCH)
    await create(store, rounds * BATCH, settings)
    claims = await watch.time(f"claim {BATCH}", [claim_of("w", BATCH) for _ in range(rounds)])
    tasks = [task for claim in claims for task in claim.tasks]
    assert len(tasks) == rounds * BATCH
    await store.apply_many(completions(tasks))


async def measure_waits(watch: Stopwatch, store: Upkeep, settings: Settings) -> None:
    """Measure suspending, delivering a signal, and claiming the resumed execution."""
    for count in (1, WAITPOINTS):
        tasks = await holding(store, settings.tasks, settings)
        waits = await watch.time(f"suspend {count}", [suspend(task, count) for task in tasks])
        signals = [deliver(task.execution_id, wait) for task, wait in zip(tasks, waits, strict=True)]
        await watch.time(f"deliver to 1 of {count}", signals)
        claims = await watch.time(f"claim resumed of {count}", [claim_of("w") for _ in tasks])
        await store.apply_many(completions([task for claim in claims for task in claim.tasks]))


def quietest(runs: Sequence[Sequence[Row]]) -> list[Row]:
    """Return the lowest value of each number, because other programs on the machine only add time."""
    return [
        Row(
            rows[0].operation,
            rows[0].calls,
            *(min(row[at] for row in rows) for at in range(2, len(Row._fields))),
        )
        for rows in zip(*runs, strict=True)
    ]


async def measure_at(place: Place, settings: Settings) -> list[Row]:
    store = await place.open()
    try:
        with admins(place.url) as nodes:
            return await measure(store, nodes, settings)
    finally:
        await store.close()


def run(settings: Settings) -> Report:
    """Measure every hot operation several times, on fresh servers."""
    runs = []
    for _ in range(settings.runs):
        with fresh(settings) as place:
            runs.append(run_loop(measure_at(place, settings)))
    return {"rows": [row._asdict() for row in quietest(runs)]}
