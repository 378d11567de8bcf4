"""What the driver knows: what the replies told it, and a guess at what they did not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from flowfabric.model.command import NO_FENCE, Command, ExecutionCommand, Fence
from flowfabric.model.evaluation import SATISFIED
from flowfabric.model.operations.claim import Claimed, Task
from flowfabric.model.operations.create import Created, CreateExecution, Duplicate
from flowfabric.model.operations.finish import Cancelled, Delayed, Moved, RetryScheduled, TerminalFailed
from flowfabric.model.operations.grant import ClaimedOne, Granted, IssueClaimGrant, IssueReclaimGrant
from flowfabric.model.operations.lease import Released, Revoked
from flowfabric.model.operations.signal import SignalAccepted
from flowfabric.model.operations.step import PutStep, StepStored
from flowfabric.model.operations.stream import Appended
from flowfabric.model.operations.suspend import SatisfiedAtOnce, Suspended
from flowfabric.model.operations.suspend_waitpoint import OpenWaitpoint, WaitpointCreated
from flowfabric.model.operations.timer import MarkedExpired

LOST = "lost"
"""The guess for work whose lease is gone."""
LANES = ("default", "fast", "slow lane")
KINDS = ("job", "mail")
NAMESPACES = ("default", "acme")
STEPS = ("draft", "send", "approve")
KEYS = ("k0", "k1", "k2")
SIGNALS = ("go", "stop", "maybe")


class Profile(Struct, frozen=True):
    """A worker: who it is, where it looks and what it can do."""

    worker_id: str
    instance: str
    lanes: tuple[str, ...]
    capabilities: tuple[str, ...] = ()
    namespace: str = ""


WORKERS = (
    Profile("w1", "w1-a", ("default",)),
    Profile("w1", "w1-b", ("default", "fast"), ("gpu",)),
    Profile("w2", "w2-a", ("fast", "slow lane"), ("big", "gpu")),
    Profile("w3", "w3-a", LANES, ("big", "gpu"), "acme"),
)


@dataclass
class Known:
    """One execution."""

    execution_id: str
    lane_id: str = "default"
    namespace: str = "default"
    state: str = "waiting"
    fence: Fence = NO_FENCE
    worker: Profile = WORKERS[0]
    stale: list[Fence] = field(default_factory=list)
    granted: tuple[str, str] = ("", "")
    attempts: int = 0
    waitpoints: list[OpenWaitpoint] = field(default_factory=list)


class World:
    """All that is known."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.runs: dict[str, Known] = {}
        self.sent: list[Command[Any]] = []
        self.keys: list[str] = []
        """Secrets that were installed, by key id."""

    def learn(self, command: Command[Any], reply: Any) -> None:
        """Take in what a reply tells; refusals tell too little to be of use."""
        if isinstance(reply, Created) and isinstance(command, CreateExecution):
            known = Known(reply.execution_id, command.lane_id, command.namespace, str(reply.public_state))
            self.runs[reply.execution_id] = known
        elif isinstance(reply, Claimed):
            for task in reply.tasks:
                self._take(task)
        elif isinstance(reply, ClaimedOne):
            self._take(reply.task)
        elif isinstance(command, ExecutionCommand) and not isinstance(reply, Exception | Duplicate):
            known_run = self.runs.get(command.execution_id)
            if known_run is not None:
                self._told(known_run, command, reply)

    def _take(self, task: Task) -> None:
        known = self.runs.setdefault(
            task.execution_id, Known(task.execution_id, task.lane_id, task.namespace)
        )
        if known.fence.given and known.fence != task.fence:
            known.stale.append(known.fence)
        known.fence = task.fence
        known.state = "active"
        known.attempts = max(known.attempts, task.attempt_index + 1)
        known.worker = next((w for w in WORKERS if w.instance == task.worker_instance_id), WORKERS[0])
        known.granted = ("", "")

    @staticmethod
    def _told(known: Known, command: ExecutionCommand[Any], reply: Any) -> None:
        if isinstance(reply, Suspended | SatisfiedAtOnce):
            known.waitpoints += [reply.waitpoint, *reply.additional_waitpoints]
            known.state = "suspended" if isinstance(reply, Suspended) else known.state
        elif isinstance(reply, WaitpointCreated):
            known.waitpoints.append(reply.waitpoint)
        elif isinstance(reply, Granted) and isinstance(command, IssueClaimGrant | IssueReclaimGrant):
            known.granted = (command.worker_id, command.worker_instance_id)
        elif isinstance(reply, Released | Revoked | MarkedExpired):
            known.state = LOST
        elif isinstance(reply, SignalAccepted):
            known.state = "waiting" if reply.effect == SATISFIED else known.state
        elif isinstance(reply, RetryScheduled):
            known.state = "delayed"
        elif isinstance(reply, TerminalFailed):
            known.state = "failed"
        elif isinstance(reply, Cancelled | Delayed | Moved) or hasattr(reply, "public_state"):
            known.state = str(reply.public_state) or "purged"
        elif isinstance(reply, Appended | StepStored) or isinstance(command, PutStep):
            known.state = "active"
