"""Long campaigns: `python -m support.simulation --minutes 10`."""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import queue
import secrets
import sys
import time
from collections import Counter
from collections.abc import Container
from typing import Any, NamedTuple

from support.simulation.campaign import run_seed
from support.simulation.compare import Disagreement

PROGRESS_SECONDS = 30.0
END_SECONDS = 60.0


class Plan(NamedTuple):
    """What every sequence of a campaign is like."""

    names: list[str]
    commands: int


def main(arguments: list[str] | None = None) -> int:
    """Run sequences with fresh seeds until the time is over or one fails."""
    parser = argparse.ArgumentParser(prog="python -m support.simulation", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None, help="the first seed; default: a random one")
    parser.add_argument("--stores", default="memory,sqlite", help="the first is compared with the others")
    parser.add_argument("--commands", type=int, default=60, help="actions in one sequence")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--once", action="store_true", help="run the one seed only")
    parser.add_argument(
        "--keep-going", action="store_true", help="collect failures by kind instead of stopping"
    )
    options = parser.parse_args(arguments)
    first = secrets.randbelow(2**40) if options.seed is None else options.seed
    names = options.stores.split(",")
    if options.once:
        failure = _attempt(first, Plan(names, options.commands))
        _say(failure[1] if failure else f"seed {first}: as it should be")
        return 1 if failure else 0
    return _campaign(options, names, first)


def _campaign(options: Any, names: list[str], first: int) -> int:
    plan = Plan(names, options.commands)
    context = multiprocessing.get_context("spawn")
    results: Any = context.Queue()
    stopping: Any = context.Event()
    until = time.time() + options.minutes * 60
    workers = [
        context.Process(
            target=_work,
            args=(results, stopping, first + n, options.processes, plan, until, options.keep_going),
            daemon=True,
        )
        for n in range(options.processes)
    ]
    for worker in workers:
        worker.start()
    failures: Counter[str] = Counter()
    try:
        done = _watch(results, workers, until, failures, stop=not options.keep_going)
    finally:
        stopping.set()
        for worker in workers:  # each stops the servers that it has started
            worker.join(END_SECONDS)
            worker.terminate()
            worker.join()
    _say(f"{done} sequences of {options.commands} actions from seed {first}, {sum(failures.values())} failed")
    for kind, count in failures.most_common():
        _say(f"  {count} x {kind}")
    return 1 if failures else 0


def _watch(results: Any, workers: list[Any], until: float, failures: Counter[str], *, stop: bool) -> int:
    done = finished = 0
    shown = time.time()
    while finished < len(workers):
        try:
            message = results.get(timeout=1.0)
        except queue.Empty:
            message = ("idle",)
        if message[0] == "done":
            done += 1
        elif message[0] == "end":
            finished += 1
        elif message[0] == "failed":
            done += 1
            failures[message[1]] += 1
            if failures[message[1]] == 1:
                _say(message[2])
            if stop:
                return done
        if time.time() - shown >= PROGRESS_SECONDS:
            shown = time.time()
            _say(f"{done} sequences, {sum(failures.values())} failed, {max(until - shown, 0):.0f} s left")
        if message[0] == "idle" and not any(worker.is_alive() for worker in workers):
            failures["a process of the campaign died"] += 1
            break
    return done


def _work(
    results: Any, stopping: Any, seed: int, step: int, plan: Plan, until: float, keep_going: bool
) -> None:
    known: set[str] = set()
    while time.time() < until and not stopping.is_set():
        failure = _attempt(seed, plan, known)
        if failure is None:
            results.put(("done", seed))
        else:
            known.add(failure[0])
            results.put(("failed", *failure))
            if not keep_going:
                break
        seed += step
    results.put(("end",))


def _attempt(seed: int, plan: Plan, known: Container[str] = ()) -> tuple[str, str] | None:
    async def run() -> None:
        await run_seed(seed, plan.names, plan.commands, known=known)

    try:
        asyncio.run(run())
    except Disagreement as failure:
        return failure.kind, str(failure)
    except Exception as error:  # noqa: BLE001 - a crash of the store is a finding too
        return f"raised {type(error).__name__}", f"seed {seed}: {error!r}"
    return None


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
