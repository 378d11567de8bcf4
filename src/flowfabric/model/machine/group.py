"""Decide a group of commands on one workspace, and register the step of each command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, TypeVar

from flowfabric.model.command import Command, ReadRequest
from flowfabric.model.errors import FlowFabricError, InternalError
from flowfabric.model.machine.workspace import Head, KeptRefusal, LoadRequest, Missing, Workspace

R = TypeVar("R")
C = TypeVar("C", bound=Command[Any])
MAX_ROUNDS: Final = 64
"""No step of ours needs more loads than this; more means that a step asks for ever."""
Reply = Any
"""The answer of a command, or the error that refused it."""
_STEPS: Final[dict[type[Command[Any]], Callable[[Workspace, Any], Any]]] = {}


def step(kind: type[C]) -> Callable[[Callable[[Workspace, C], R]], Callable[[Workspace, C], R]]:
    """Register the function that decides a kind of command."""

    def register(function: Callable[[Workspace, C], R]) -> Callable[[Workspace, C], R]:
        _STEPS[kind] = function
        return function

    return register


def steps() -> frozenset[type[Command[Any]]]:
    """Return the kinds of commands whose steps are registered: those of all modules that were imported."""
    return frozenset(_STEPS)


def run_group(
    space: Workspace, commands: Sequence[Command[Any]], chances: Sequence[float]
) -> Generator[LoadRequest, None, list[Reply]]:
    """Decide a group of commands; yield what to load, and go on once the store has loaded it.

    Commands are decided in their order. From the first that misses records on, the others of the round are only
    rehearsed, so that one load brings what all of them want.
    """
    replies: list[Reply] = []
    claim_capacity: Counter[str] = Counter()
    for command in commands:
        for lane_id, count in command.claim_capacity():
            claim_capacity[lane_id] += count
    request = LoadRequest({read for command in commands for read in command.reads()}, {}, claim_capacity)
    rounds = 0
    while True:
        yield request
        before = len(replies)
        request = _round(space, commands, chances, replies)
        if len(replies) == len(commands):
            return replies
        rounds = rounds + 1 if len(replies) == before else 0
        if rounds == MAX_ROUNDS:
            name = type(commands[before]).__name__
            replies.append(InternalError(f"{name} asks for records without end"))
            rounds = 0


def _round(
    space: Workspace, commands: Sequence[Command[Any]], chances: Sequence[float], replies: list[Reply]
) -> LoadRequest:
    """Decide commands until one misses records; return what it and those after it must read."""
    reads: set[ReadRequest] = set()
    heads: dict[Head, int] = {}
    missed = False
    for place in range(len(replies), len(commands)):
        space.chance = chances[place]
        try:
            if missed:
                _rehearse(space, commands[place])
            else:
                replies.append(_decide(space, commands[place]))
        except Missing as missing:
            missed = True
            reads |= missing.reads
            for head, count in missing.heads.items():
                heads[head] = heads.get(head, 0) + count
        if missed:
            space.drop()
    return LoadRequest(reads, heads, {})


def _rehearse(space: Workspace, command: Command[Any]) -> None:
    """Run a step only to find out what it reads."""
    try:
        _STEPS[type(command)](space, command)
    except Missing:
        raise
    except (Exception, KeptRefusal):  # noqa: BLE001 - it is decided later, and answered then
        return


def _decide(space: Workspace, command: Command[Any]) -> Reply:
    try:
        answer = _STEPS[type(command)](space, command)
    except KeptRefusal as refusal:
        space.keep()
        return refusal.error
    except FlowFabricError as error:
        space.drop()
        return error
    except Missing:
        raise
    except Exception as defect:  # noqa: BLE001 - a defect in one step must not fail its neighbours
        space.drop()
        fault = InternalError(f"{type(command).__name__}: {defect!r}")
        fault.__cause__ = defect
        return fault
    space.keep()
    return answer
