"""The duties of a store.

`Commands` lists what clients and workers call, `Upkeep` what the engine calls besides. Every operation is a command
object with a typed answer, and a store decides it in one atomic step. All stores and the HTTP client take the same
objects, and one conformance suite tests them all.

A store that decides commands in this process derives from `flowfabric.storage.store_base.StoreBase`. A store on SQL
plans its transactions with `flowfabric.storage.sql.unit.Unit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeGuard, TypeVar, runtime_checkable

from msgspec import Struct

from flowfabric.model.command import Command, Question
from flowfabric.model.errors import FlowFabricError
from flowfabric.model.ids import Partitions
from flowfabric.model.operations.access import ApprovalLink, LinkRequest
from flowfabric.model.operations.claim import Claim, Claimed
from flowfabric.model.operations.stream import StreamPage, TailStream
from flowfabric.model.records import Execution

R = TypeVar("R")

Clock = Callable[[], int]
"""Returns the time in milliseconds since 1970; tests and simulations pass their own."""


class Subscription(Protocol):
    """Wakes its owner when something is published on its topics. It may wake too often, but never misses anything."""

    async def wait(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - the wait itself is the purpose
        """Wait for a wake-up; return False on timeout."""

    def woken(self) -> tuple[str, ...]:
        """Return the topics that were published since the last call."""


class StoreTraits(Struct, frozen=True, kw_only=True):
    """What distinguishes one kind of store from another, for the code that uses it."""

    is_direct: bool = True
    """True for a store that an engine may run on; False for a server in front of one, which runs its own."""
    is_thread_safe: bool = False
    """True if every event loop and thread of the process may share the store; else each opens its own."""
    waits_remotely: bool = False
    """True if the other end of the connection waits for work, frames and ends (`Waits`)."""
    makes_links: bool = False
    """True if the store makes approval links (`MakesLinks`)."""


class Commands(Protocol):
    """The duties of every store, and of a server in front of one.

    ::

        created = await store.apply(CreateExecution(execution_id=execution_id, execution_kind="greet"))
        found = await store.read(Describe(execution_id=execution_id))

    Commands and questions are in `flowfabric.model.operations`.
    """

    @property
    def partitions(self) -> Partitions:
        """How ids are spread."""

    @property
    def traits(self) -> StoreTraits:
        """What this kind of store can do."""

    async def apply(self, command: Command[R]) -> R:
        """Decide one command; raise a `FlowFabricError` if it is refused."""

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Decide several commands, each on its own; return an answer or an error for each, in order."""

    async def read(self, question: Question[R]) -> R:
        """Answer a question."""

    def subscribe(self, topics: Iterable[str]) -> AbstractAsyncContextManager[Subscription]:
        """Subscribe to topics: `lane:<lane>`, `execution:<id>`, `worker:<instance>`, `due`, `feed`."""

    async def close(self) -> None:
        """Finish what was accepted, and release every connection, thread and file."""


@runtime_checkable
class Waits(Protocol):
    """The additional duties of a store whose `traits.waits_remotely` is True: one call waits, instead of many polls."""

    async def claim_within(self, claim: Claim, wait_ms: int) -> Claimed:
        """Claim; if nothing is claimable, wait until something is or the time is over."""

    async def tail_within(self, question: TailStream, wait_ms: int) -> StreamPage:
        """Read the frames after a cursor; if there are none, wait for one or for the end of the stream."""

    async def end_within(self, execution_id: str, wait_ms: int) -> Execution:
        """Wait until the execution has ended; return it as it is when the time is over."""


class MakesLinks(Protocol):
    """The additional duty of a store whose `traits.makes_links` is True."""

    async def make_link(self, link: LinkRequest) -> ApprovalLink:
        """Return a link to a page on which its visitor sends one signal to a waitpoint, once."""


class RepairReport(Struct, frozen=True):
    """The result of comparing indexes with records."""

    checked: int
    wrong: tuple[str, ...]
    """One sentence for each entry that differs from what its record implies."""
    fixed: bool


class Dump(Struct, frozen=True):
    """Everything that a store holds; two stores with the same contents have equal dumps."""

    records: dict[str, dict[tuple[Any, ...], Any]]
    """By kind and key."""
    indexes: dict[str, dict[str, Any]]
    """By execution: its index entries, as stored."""
    history: dict[str, tuple[Any, ...]]
    frames: dict[tuple[str, int], tuple[Any, ...]]
    counts: dict[tuple[str, str, str], int]
    """By lane, namespace and public state."""


class Upkeep(Commands, Protocol):
    """The duties of a store on which an engine runs: timers, leader leases, repair and clean-up."""

    def subscribe(
        self, topics: Iterable[str], namespace: str = ""
    ) -> AbstractAsyncContextManager[Subscription]:
        """Subscribe to topics in one namespace; in all if it is empty."""

    def now(self) -> int:
        """Return the store's time."""

    def expect_due(self, due_at: int) -> None:
        """Schedule the next timer at `due_at`; 0 cancels it. What falls due earlier wakes the engine."""

    def next_due(self) -> int:
        """Return the time of the next timer, or an earlier one at which something has fallen due since."""

    async def acquire_leader_lease(self, name: str, holder: str, ttl_ms: int) -> bool:
        """Acquire or extend a leader lease; return False if another holder has it."""

    async def release_leader_lease(self, name: str, holder: str) -> None:
        """End a leader lease, so that another process can acquire it at once."""

    async def collect(self, limit: int = 1000) -> int:
        """Delete at most `limit` expired records of each kind; return how many were deleted."""

    async def repair(self, *, fix: bool = True) -> RepairReport:
        """Compare every index entry with what its record implies; correct it if `fix` is True."""

    async def dump(self) -> Dump:
        """Return everything that the store holds; for tests and small stores."""


def is_direct(store: Commands) -> TypeGuard[Upkeep]:
    """Return True if an engine may run on the store."""
    return store.traits.is_direct


def waits_remotely(store: Commands) -> TypeGuard[Waits]:
    """Return True if the other end of the connection waits for work, frames and ends."""
    return store.traits.waits_remotely


def makes_links(store: Commands) -> TypeGuard[MakesLinks]:
    """Return True if the store makes approval links."""
    return store.traits.makes_links
