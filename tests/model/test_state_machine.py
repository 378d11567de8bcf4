"""The bare machine under hypothesis: any order of operations, all rules after each."""

from __future__ import annotations

import random
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from flowfabric.model.command import Command
from flowfabric.model.operations.access_secret import SeedSecret
from flowfabric.storage.memory import MemoryStore
from support.clock import ManualClock
from support.simulation.actions import Action, Apply, Collect, Jump, Many, Sweep
from support.simulation.draw import Draw
from support.simulation.driver import Driver
from support.simulation.fleet import Fleet, Lot
from support.simulation.making import MAKERS
from support.simulation.simulation import Simulation

T = TypeVar("T")
KINDS = sorted(MAKERS, key=lambda kind: kind.__name__)
CHANCES = st.randoms(use_true_random=False)
LOTS = st.integers(0, 2**16)


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run what never waits: the bare machine has nothing to wait for."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise AssertionError("the bare machine waited")


class Machine(RuleBasedStateMachine):
    """One store, every operation, and a clock that jumps."""

    def __init__(self) -> None:
        super().__init__()
        clock, lot = ManualClock(), Lot()
        fleet = Fleet(("memory",), (MemoryStore(clock=clock, chance=lot),), clock)
        fleet.lots = [lot]
        self.simulation = Simulation(0, fleet, every=1)

    def driver(self, chances: random.Random) -> Driver:
        return Driver(self.simulation.world, Draw(chances))

    def perform(self, action: Action) -> None:
        at_once(self.simulation.perform(action))

    @initialize()
    def seed(self) -> None:
        self.perform(Apply(SeedSecret(kid="k1", secret_hex="ab" * 32)))

    @rule(chances=CHANCES, lot=LOTS)
    def fitting(self, chances: random.Random, lot: int) -> None:
        """A command that fits what is known."""
        self.perform(Apply(self.driver(chances).command(), lot=lot))

    @rule(kind=st.sampled_from(KINDS), chances=CHANCES, lot=LOTS)
    def anything(self, kind: type[Command[Any]], chances: random.Random, lot: int) -> None:
        """Any operation at all."""
        self.perform(Apply(self.driver(chances).make(kind), lot=lot))

    @rule(chances=CHANCES, size=st.integers(2, 5), lot=LOTS)
    def together(self, chances: random.Random, size: int, lot: int) -> None:
        """Several commands as one group."""
        driver = self.driver(chances)
        self.perform(Many(tuple(driver.command() for _ in range(size)), lot=lot))

    @precondition(lambda self: self.simulation.world.sent)
    @rule(chances=CHANCES, lot=LOTS)
    def again(self, chances: random.Random, lot: int) -> None:
        """The very command that was sent before."""
        self.perform(Apply(Draw(chances).pick(self.simulation.world.sent), lot=lot))

    @rule(ms=st.sampled_from((1, 999, 5_000, 30_000, 61_000, 90_000_000, -1, -2_000, -100_000_000)))
    def jump(self, ms: int) -> None:
        """Time passes, or goes back."""
        self.perform(Jump(ms))

    @rule(limit=st.sampled_from((1, 100)), lot=LOTS)
    def sweep(self, limit: int, lot: int) -> None:
        """What is due happens."""
        self.perform(Sweep(limit, lot=lot))

    @rule()
    def collect(self) -> None:
        """What has expired goes."""
        self.perform(Collect(100))


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    derandomize=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
