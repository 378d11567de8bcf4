"""Making a failing sequence short: leave parts out as long as it fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

from support.simulation.actions import Action, Many

Fails = Callable[[Sequence[Action]], Awaitable[bool]]


async def shrink(actions: Sequence[Action], fails: Fails, seconds: float = 60.0) -> list[Action]:
    """Return a short sequence that still fails; the best so far when time runs out."""
    give_up = time.monotonic() + seconds
    best = list(actions)
    size = max(len(best) // 2, 1)
    while time.monotonic() < give_up:
        shorter = await _without(best, size, fails, give_up)
        if len(shorter) < len(best):
            best = shorter
        elif size == 1:
            break
        size = max(min(size, len(best)) // 2, 1)
    return await _thinner(best, fails, give_up)


async def _without(actions: list[Action], size: int, fails: Fails, give_up: float) -> list[Action]:
    place = max(len(actions) - size, 0)
    while actions and time.monotonic() < give_up:
        candidate = actions[:place] + actions[place + size :]
        if candidate and await fails(candidate):
            actions = candidate
        if place == 0:
            break
        place = max(min(place, len(actions)) - size, 0)
    return actions


async def _thinner(actions: list[Action], fails: Fails, give_up: float) -> list[Action]:
    """Leave commands out of groups."""
    for place, action in enumerate(actions):
        if not isinstance(action, Many):
            continue
        commands = action.commands
        for index in reversed(range(len(commands))):
            fewer = commands[:index] + commands[index + 1 :]
            candidate = [*actions[:place], Many(fewer, lot=action.lot), *actions[place + 1 :]]
            if fewer and time.monotonic() < give_up and await fails(candidate):
                commands, actions = fewer, candidate
    return actions
