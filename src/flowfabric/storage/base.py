"""The boundary between the engine and its stores.

Every operation is a command object with a typed answer; a store decides it in one atomic step. The same objects are
sent to every store, over HTTP, and to the bare machine that the tests compare with.
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
"""Returns milliseconds since 1970; injected, so that tests and simulations own the time."""


class Subscription(Protocol):
    """Wakes its owner when something happened that it listens to. Spurious wake-ups are allowed, lost ones are not."""

    async def wait(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - the wait itself is the purpose
        """Return True when woken, False when the time is over."""

    def woken(self) -> tuple[str, ...]:
        """Return the topics that woke it since this was last asked."""


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
    """What clients and workers need of a store, or of a server in front of one.

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
        """Decide one command; raise the error that refuses it."""

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Decide several commands, each on its own; refusals are returned in place."""

    async def read(self, question: Question[R]) -> R:
        """Answer a question."""

    def subscribe(self, topics: Iterable[str]) -> AbstractAsyncContextManager[Subscription]:
        """Listen to topics: `lane:<lane>`, `execution:<id>`, `worker:<instance>`, `due`, `feed`."""

    async def close(self) -> None:
        """Let everything go."""


@runtime_checkable
class Waits(Protocol):
    """What a connection may offer besides: somebody at its other end who waits, so that nobody here asks again."""

    async def claim_within(self, claim: Claim, wait_ms: int) -> Claimed:
        """Claim; when there is nothing, wait for something."""

    async def tail_within(self, question: TailStream, wait_ms: int) -> StreamPage:
        """Read what follows a cursor; when there is nothing, wait for something."""

    async def end_within(self, execution_id: str, wait_ms: int) -> Execution:
        """Return the execution when it has ended, or as it is when the time is over."""


class MakesLinks(Protocol):
    """The additional duty of a store whose `traits.makes_links` is True."""

    async def make_link(self, link: LinkRequest) -> ApprovalLink:
        """Return a link to a page on which its visitor sends one signal to a waitpoint, once."""


class RepairReport(Struct, frozen=True):
    """What a comparison of records and indexes found and, if asked to, mended."""

    checked: int
    wrong: tuple[str, ...]
    """One sentence for each entry that was not as its record says."""
    fixed: bool


class Dump(Struct, frozen=True):
    """Everything that a store holds, in a form that is equal for equal contents on every store."""

    records: dict[str, dict[tuple[Any, ...], Any]]
    """By kind and key."""
    indexes: dict[str, dict[str, Any]]
    """By execution: the kept index entries as the store has them."""
    history: dict[str, tuple[Any, ...]]
    frames: dict[tuple[str, int], tuple[Any, ...]]
    counts: dict[tuple[str, str, str], int]
    """By lane, namespace and public state."""


class Upkeep(Commands, Protocol):
    """What the engine needs besides: the baton, repair, clean-up and a look at everything."""

    def subscribe(
        self, topics: Iterable[str], namespace: str = ""
    ) -> AbstractAsyncContextManager[Subscription]:
        """Listen to topics, as far as one namespace has to do with them; empty: to all."""

    def now(self) -> int:
        """Return the store's time."""

    def expect_due(self, due_at: int) -> None:
        """Say that something is due then; 0 forgets what was said before. What falls due earlier wakes the engine."""

    def next_due(self) -> int:
        """Return that time, or an earlier one that has come up since."""

    async def take_baton(self, name: str, holder: str, ttl_ms: int) -> bool:
        """Hold or keep the right to do something alone, for a while."""

    async def drop_baton(self, name: str, holder: str) -> None:
        """Give that right back at once."""

    async def collect(self, limit: int = 1000) -> int:
        """Delete what has expired and is never read again; return how many rows went."""

    async def repair(self, *, fix: bool = True) -> RepairReport:
        """Compare every index entry with what its record implies."""

    async def dump(self) -> Dump:
        """Return everything; for proofs and small stores."""


def is_direct(store: Commands) -> TypeGuard[Upkeep]:
    """Return True if an engine may run on the store."""
    return store.traits.is_direct


def waits_remotely(store: Commands) -> TypeGuard[Waits]:
    """Return True if the other end of the connection waits for work, frames and ends."""
    return store.traits.waits_remotely


def makes_links(store: Commands) -> TypeGuard[MakesLinks]:
    """Return True if the store makes approval links."""
    return store.traits.makes_links
