"""One seed from beginning to end: run it, and when it fails, say how in as few commands as possible."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Container, Sequence
from pathlib import Path
from typing import NamedTuple

from support.simulation.actions import Action, spell
from support.simulation.compare import Disagreement
from support.simulation.fleet import open_fleet
from support.simulation.shrink import shrink
from support.simulation.simulation import Simulation


async def run_seed(
    seed: int,
    names: Sequence[str],
    steps: int,
    *,
    known: Container[str] = (),
    shrink_seconds: float = 30.0,
) -> Simulation:
    """Run one sequence; a failure is raised with its seed and a minimal list of actions, unless its kind is known."""
    folder = Path(tempfile.mkdtemp(prefix="ff-simulation-"))
    try:
        async with open_fleet(names, folder / "run") as fleet:
            simulation = Simulation(seed, fleet)
            try:
                await simulation.run(steps)
            except Disagreement as failure:
                found = failure
            else:
                return simulation
        if found.kind in known:
            raise found
        again = Rerun(names, folder / "shrink")
        minimal = await _shrunk(simulation.actions, found.kind, again, shrink_seconds)
        raise Disagreement(found.kind, report(seed, steps, again, minimal, found)) from found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Rerun(NamedTuple):
    """How actions are repeated."""

    names: Sequence[str]
    folder: Path


async def first_failure(actions: Sequence[Action], again: Rerun) -> Disagreement | None:
    """Repeat actions on fresh stores and return what fails."""
    shutil.rmtree(again.folder, ignore_errors=True)
    async with open_fleet(again.names, again.folder) as fleet:
        every = 1 if len(actions) < 30 else 6
        simulation = Simulation(0, fleet, every)
        try:
            await simulation.repeat(actions)
        except Disagreement as failure:
            return failure
    return None


async def _shrunk(actions: Sequence[Action], kind: str, again: Rerun, seconds: float) -> list[Action]:
    async def fails(candidate: Sequence[Action]) -> bool:
        failure = await first_failure(candidate, again)
        return failure is not None and failure.kind == kind

    return await shrink(actions, fails, seconds)


def report(seed: int, steps: int, again: Rerun, actions: Sequence[Action], failure: Disagreement) -> str:
    """Say what failed and how to see it again."""
    command = f"python -m support.simulation --seed {seed} --once --commands {steps} --stores {','.join(again.names)}"
    lines = [f"  {spell(action)}" for action in actions]
    return "\n".join((f"{failure}", f"seed {seed}: {command}", f"{len(actions)} actions are enough:", *lines))
