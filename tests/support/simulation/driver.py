"""Choosing the next action: mostly one that fits what is known, sometimes any that there is."""

from __future__ import annotations

import copy
from typing import Any, Final

from flowfabric.model.command import Command, Fence, Question
from flowfabric.model.operations.access import CreateToken, DeleteToken
from flowfabric.model.operations.access_secret import RotateSecret, SeedSecret
from flowfabric.model.operations.claim import Claim
from flowfabric.model.operations.create import CreateExecution
from flowfabric.model.operations.finish import Cancel, Complete, Delay, Fail, WaitChildren
from flowfabric.model.operations.grant import (
    ClaimGranted,
    ClaimResumed,
    GrantAndClaim,
    IssueClaimGrant,
    IssueReclaimGrant,
    Reclaim,
)
from flowfabric.model.operations.kind import DeleteKind, PublishKind
from flowfabric.model.operations.lane import OpenLane, PauseLane, UnpauseLane
from flowfabric.model.operations.lease import Release, Renew, RevokeLease, UpdateProgress
from flowfabric.model.operations.operate import (
    Block,
    ChangePriority,
    Pause,
    Replay,
    SetTags,
    Unblock,
    Unpause,
)
from flowfabric.model.operations.signal import ApproveSignal, DeliverSignal
from flowfabric.model.operations.step import PutStep
from flowfabric.model.operations.stream import AppendFrames
from flowfabric.model.operations.suspend import Suspend
from flowfabric.model.operations.suspend_resume import ResumeExecution
from flowfabric.model.operations.suspend_waitpoint import CloseWaitpoint, CreateWaitpoint
from flowfabric.model.operations.timer import ExpireSuspension, LoseDeadLease, PromoteDelayed, Purge
from flowfabric.model.operations.worker import HeartbeatWorker, MarkWorkerDead, RegisterWorker
from support.simulation import (
    making_access,
    making_kinds,
    making_leases,
    making_questions,
    making_upkeep,
    making_waits,
    making_work,
)
from support.simulation.actions import Action, Apply, Collect, Jump, Many, Restart, Sweep
from support.simulation.draw import Draw
from support.simulation.making import MAKERS, Hand
from support.simulation.world import LOST, Known, World

assert all(
    (
        making_access,
        making_kinds,
        making_leases,
        making_questions,
        making_upkeep,
        making_waits,
        making_work,
    )
)

Kind = type[Command[Any]]
ENDED: Final[tuple[tuple[int, Kind], ...]] = (
    (4, Replay),
    (2, Purge),
    (1, SetTags),
    (1, Complete),
    (1, Cancel),
)
FITTING: Final[dict[str, tuple[tuple[int, Kind], ...]]] = {
    "waiting": (
        (10, Claim),
        (3, GrantAndClaim),
        (5, IssueClaimGrant),
        (3, ClaimGranted),
        (3, ClaimResumed),
        (1, Block),
        (1, Unblock),
        (1, Pause),
        (2, Unpause),
        (1, ChangePriority),
        (1, Cancel),
        (1, UnpauseLane),
    ),
    "delayed": (
        (3, PromoteDelayed),
        (1, Pause),
        (2, Claim),
        (1, GrantAndClaim),
        (1, ChangePriority),
        (1, Cancel),
    ),
    "rate_limited": ((4, Unblock), (1, Pause), (1, Cancel)),
    "waiting_children": ((1, Claim), (1, Cancel)),
    "active": (
        (6, Complete),
        (5, Fail),
        (8, Suspend),
        (4, CreateWaitpoint),
        (5, AppendFrames),
        (4, PutStep),
        (2, Renew),
        (2, Release),
        (2, Delay),
        (1, WaitChildren),
        (1, UpdateProgress),
        (1, Cancel),
        (1, RevokeLease),
        (3, DeliverSignal),
        (1, ApproveSignal),
        (1, CloseWaitpoint),
        (1, LoseDeadLease),
        (1, Claim),
    ),
    LOST: ((4, Claim), (3, IssueReclaimGrant), (3, Reclaim), (1, Cancel), (1, Complete), (1, AppendFrames)),
    "suspended": (
        (10, DeliverSignal),
        (4, ApproveSignal),
        (2, ResumeExecution),
        (2, ExpireSuspension),
        (1, Cancel),
        (1, Claim),
    ),
    "completed": ENDED,
    "failed": ENDED,
    "cancelled": ENDED,
    "expired": ENDED,
    "skipped": ENDED,
    "purged": ((1, CreateExecution), (1, Replay)),
}
ASIDE: Final[tuple[tuple[int, Kind], ...]] = (
    (2, PauseLane),
    (1, OpenLane),
    (3, RegisterWorker),
    (3, HeartbeatWorker),
    (1, MarkWorkerDead),
    (1, RotateSecret),
    (3, CreateToken),
    (3, DeleteToken),
    (2, PublishKind),
    (2, DeleteKind),
)
"""What is not about an execution."""
GRANTED: Final[tuple[Kind, ...]] = (ClaimGranted, ClaimResumed, Reclaim)
"""What a grant is used for."""
CROWD: Final[tuple[Kind, ...]] = (Claim, Claim, CreateExecution, Pause)
"""What many send at once."""


class Driver:
    """Makes actions out of what is known and of chances."""

    def __init__(self, world: World, draw: Draw) -> None:
        self.world = world
        self.draw = draw
        self.kinds: list[Kind] = sorted(MAKERS, key=lambda kind: kind.__name__)
        self.changes = [kind for kind in self.kinds if not issubclass(kind, Question)]
        self.questions = [kind for kind in self.kinds if issubclass(kind, Question)]

    def next(self) -> Action:
        """Choose what happens next."""
        lot = self.draw.integer(0, 2**32)
        what = self.draw.weighted(
            (
                (70, "one"),
                (10, "group"),
                (16, "question"),
                (6, "jump"),
                (6, "sweep"),
                (5, "repeat"),
                (1, "collect"),
                (2, "restart"),
            )
        )
        if what == "jump":
            return Jump(self._leap())
        if what == "sweep":
            return Sweep(self.draw.pick((1, 3, 100)), lot=lot)
        if what == "restart":
            return Restart()
        if what == "collect":
            return Collect(1_000, lot=lot)
        if what == "group":
            return Many(self._group(), lot=lot)
        if what == "question":
            return Apply(self.make(self.draw.pick(self.questions)), lot=lot)
        if what == "repeat" and self.world.sent:
            return Apply(self.draw.pick(self.world.sent), lot=lot)
        return Apply(self.command(), lot=lot)

    def make(self, kind: Kind, about: Known | None = None) -> Command[Any]:
        """Make one command of a kind."""
        return MAKERS[kind](Hand(self.world, self.draw, about))

    def command(self, about: Known | None = None) -> Command[Any]:
        """Make a command that mostly fits the state of an execution."""
        if self.draw.chance(0.12):
            return self.make(self.draw.pick(self.changes), about)
        if not any(isinstance(command, SeedSecret) for command in self.world.sent):
            return SeedSecret(kid="k1", secret_hex="ab" * 32)
        live = [run for run in self.world.runs.values() if run.state != "purged"]
        if about is None and (len(live) < 3 or self.draw.chance(0.08)):
            return self.make(CreateExecution)
        chosen = about or (self.draw.pick(live[-4:]) if self.draw.chance(0.7) else self.draw.pick(live))
        if self.draw.chance(0.04):
            return self.make(self.draw.weighted(ASIDE))
        if chosen.granted[0] and self.draw.chance(0.6):
            return self.make(self.draw.pick(GRANTED), chosen)
        return self.make(self.draw.weighted(FITTING[chosen.state]), chosen)

    def _leap(self) -> int:
        return self.draw.weighted(
            (
                (8, self.draw.integer(1, 900)),
                (6, self.draw.integer(1_000, 6_000)),
                (4, 30_000),
                (2, 61_000),
                (1, 4 * 3_600_000),
                (1, 90_000_000),
                (2, -self.draw.integer(1, 3_000)),
                (1, -100_000_000),
            )
        )

    def _group(self) -> tuple[Command[Any], ...]:
        size = self.draw.integer(2, 6)
        if self.draw.chance(0.15):
            return (self.command(),) * 2
        if self.draw.chance(0.2):
            return tuple(self.make(self.draw.pick(CROWD)) for _ in range(size))
        if not self.world.runs or self.draw.chance(0.3):
            return tuple(self.command() for _ in range(size))
        about = self.draw.pick(list(self.world.runs.values()))
        commands: list[Command[Any]] = []
        for _ in range(size):
            commands.append(self.command(about))
            about = _foreseen(about, commands[-1])
        return tuple(commands)


def _foreseen(known: Known, command: Command[Any]) -> Known:
    """Guess the fence that a claim by name brings, so that the same group can use it."""
    if not isinstance(command, GrantAndClaim | ClaimGranted | Reclaim):
        return known
    ahead = copy.copy(known)
    ahead.fence = Fence(command.lease_id, max(known.fence.lease_epoch, 0) + 1, command.attempt_id)
    ahead.state = "active"
    return ahead
