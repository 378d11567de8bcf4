"""Running actions on all stores at once, and looking whether everything that must hold does."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from flowfabric.model.command import HOLDER_SOURCES, Command, HolderCommand, Question
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.machine.holding import holds
from flowfabric.model.operations.claim import Claim
from flowfabric.model.operations.finish import Cancel
from flowfabric.model.operations.timer import DuePage, ReadDue, due_commands
from flowfabric.model.state import Ownership
from flowfabric.storage.base import Dump, Upkeep
from support.simulation.actions import Action, Apply, Collect, Jump, Many, Restart, Sweep, spell
from support.simulation.compare import Disagreement, difference, same_dumps, same_replies
from support.simulation.draw import Draw
from support.simulation.driver import Driver
from support.simulation.fleet import Fleet
from support.simulation.invariants import check_dump, check_progress
from support.simulation.numbers import Renaming
from support.simulation.world import World

SAVED_REFUSALS = frozenset({"lease_expired", "max_retries_exhausted", "claim_grant_expired"})
"""Refusals that are written down; all others must leave the store as it was."""
Exchange = tuple[Command[Any], Any]


class Simulation:
    """A sequence of actions on a fleet, drawn from a seed or given."""

    def __init__(self, seed: int, fleet: Fleet, every: int = 6) -> None:
        self.fleet = fleet
        self.every = every
        self.world = World(fleet.clock.now)
        self.driver = Driver(self.world, Draw(random.Random(seed)))
        self.actions: list[Action] = []
        self.exchanges: list[Exchange] = []
        self._dump: Dump | None = None
        self._checked: Dump | None = None

    async def run(self, steps: int) -> None:
        """Draw and perform actions; the actions so far are kept, also when one fails."""
        for _ in range(steps):
            await self.perform(self.driver.next())
        await self.compare()

    async def repeat(self, actions: Sequence[Action]) -> None:
        """Perform given actions."""
        for action in actions:
            await self.perform(action)
        await self.compare()

    async def perform(self, action: Action) -> None:
        """Do one thing on every store; refuse answers that differ or break a rule."""
        self.actions.append(action)
        self.fleet.begin(action.lot)
        first = self.fleet.stores[0]
        before = self._dump or await first.dump()
        answers = await self._answers(action)
        for name, other, renaming in list(zip(self.fleet.names, answers, self.fleet.renamings, strict=True))[
            1:
        ]:
            first_answers = answers[0]
            if renaming is not None:
                first_answers = [(command, renaming.comparable(reply)) for command, reply in answers[0]]
            self._match(first_answers, other, (self.fleet.names[0], name))
        for command, reply in answers[0]:
            _no_defect(command, reply)
            self.world.learn(command, reply)
            self.world.sent.append(command)
        self.exchanges += answers[0]
        self.world.now = self.fleet.clock.now
        after = await first.dump()
        if isinstance(action, Apply):
            check_effect(action.command, answers[0][0][1], before, after)
        self._dump = after
        if len(self.actions) % self.every == 0:
            await self.compare()

    async def _answers(self, action: Action) -> list[list[Exchange]]:
        if isinstance(action, Restart):
            await self.fleet.restart()
        return [
            await self._exchanged(store, action, renaming)
            for store, renaming in zip(self.fleet.stores, self.fleet.renamings, strict=True)
        ]

    async def _exchanged(self, store: Upkeep, action: Action, renaming: Renaming | None) -> list[Exchange]:
        if renaming is None:
            return await self._exchange(store, action)
        if isinstance(action, Apply):
            reply = await send(store, renaming.ask(action.command))
            answers: list[Exchange] = [(action.command, reply)]
        else:
            answers = await self._exchange(store, action)
        # A claim of several tasks takes them from several partitions at once.
        together = isinstance(action, Many) or (
            isinstance(action, Apply) and isinstance(action.command, Claim)
        )
        await renaming.learn(together=together)
        return [(command, renaming.answer(command, reply)) for command, reply in answers]

    async def compare(self) -> None:
        """Refuse stores that hold different things, or things that do not fit."""
        first = await self.fleet.stores[0].dump()
        check_dump(first)
        if self._checked is not None:
            check_progress(self._checked, first)
        self._checked = first
        rest = zip(self.fleet.names, self.fleet.stores, self.fleet.renamings, strict=True)
        for name, store, renaming in list(rest)[1:]:
            other = await store.dump()
            if renaming is not None:
                other = renaming.dump(other)
            same_dumps(first, other, (self.fleet.names[0], name))
            check_dump(other)
            report = await store.repair(fix=False)
            if report.wrong:
                raise Disagreement("broken: nothing needs repair", "\n".join(report.wrong))

    async def _exchange(self, store: Upkeep, action: Action) -> list[Exchange]:
        if isinstance(action, Apply):
            return [(action.command, await send(store, action.command))]
        if isinstance(action, Many):
            replies = await store.apply_many(action.commands)
            return list(zip(action.commands, replies, strict=True))
        if isinstance(action, Sweep):
            return await self._sweep(store, action)
        if isinstance(action, Collect):
            await store.collect(action.limit)
        elif isinstance(action, Jump) and store is self.fleet.stores[0]:
            self.fleet.clock.advance(action.ms)
        return []

    async def _sweep(self, store: Upkeep, action: Sweep) -> list[Exchange]:
        question = ReadDue(limit=action.limit)
        page = await send(store, question)
        exchanges: list[Exchange] = [(question, page)]
        if isinstance(page, DuePage):
            for entry in page.entries:
                for command in due_commands(entry, self.fleet.clock.now):
                    self.fleet.begin(action.lot + len(exchanges))
                    exchanges.append((command, await send(store, command)))
        return exchanges

    @staticmethod
    def _match(first: list[Exchange], other: list[Exchange], names: tuple[str, str]) -> None:
        for (command, reply), (same, answer) in zip(first, other, strict=False):
            if command != same:
                raise Disagreement("timers differ", f"{spell(command)}\n{spell(same)}")
            same_replies(type(command).__name__, reply, answer, names)
        if len(first) != len(other):
            raise Disagreement("timers differ", f"{len(first)} and {len(other)} commands were due")


async def send(store: Upkeep, command: Command[Any]) -> Any:
    """Send a command; the answer may be the error that refuses it."""
    try:
        if isinstance(command, Question):
            return await store.read(command)
        return await store.apply(command)
    except FlowFabricError as error:
        return error
    except Exception as error:
        raise Disagreement(f"a raw {type(error).__name__}: {type(command).__name__}", repr(error)) from error


def _no_defect(command: Command[Any], reply: Any) -> None:
    if isinstance(reply, FlowFabricError) and reply.code == "internal_error":
        raise Disagreement(f"a defect: {type(command).__name__}", str(reply))


def check_effect(command: Command[Any], reply: Any, before: Dump, after: Dump) -> None:
    """Refuse a change by a question, by a refusal, or by a fence that does not hold."""
    refused = isinstance(reply, FlowFabricError)
    if before == after or (refused and reply.code in SAVED_REFUSALS):
        return
    rule = ""
    if refused:
        rule = f"a refusal changes nothing ({reply.code})"
    elif isinstance(command, Question):
        rule = "a question changes nothing"
    elif isinstance(command, HolderCommand) and command.fence.given and not _holds(command, before):
        rule = "a stale fence changes nothing"
    if rule:
        raise Disagreement(f"broken: {rule}: {type(command).__name__}", difference(before, after))


def _holds(command: HolderCommand[Any], before: Dump) -> bool:
    if isinstance(command, Cancel) and command.source not in HOLDER_SOURCES:
        return True
    run = before.records["execution"][command.execution_id,]
    return run.ownership_state is Ownership.LEASED and holds(run, command.fence)
