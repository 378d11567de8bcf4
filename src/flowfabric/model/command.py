"""Commands and questions: what every operation is made of."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from flowfabric.model import checks
from flowfabric.model.ids import check_uuid
from flowfabric.model.limits import MAX_INT, MAX_NAME_BYTES
from flowfabric.model.record_kinds import EXECUTION, Key

R_co = TypeVar("R_co", covariant=True)
ReadRequest = tuple[str, Key]
"""A record or an index question that a step reads: its kind and key."""


class Command(Struct, Generic[R_co], frozen=True, kw_only=True):
    """One atomic operation; `R_co` is the type of its answer."""

    actor: str = ""
    """Who asked, for the history; empty means the worker that holds the lease."""

    def check(self) -> None:
        """Refuse whatever is wrong in the command itself, before any store sees it."""
        if self.actor != "":
            checks.text("actor", self.actor, max_bytes=MAX_NAME_BYTES, empty=True)

    def reads(self) -> tuple[ReadRequest, ...]:
        """Name the records that the step certainly reads, so that a group loads them together."""
        return ()

    def claim_capacity(self) -> tuple[tuple[str, int], ...]:
        """Name the lanes whose queues the step will look at, and how many executions it may take."""
        return ()


class ExecutionCommand(Command[R_co], frozen=True, kw_only=True):
    """An operation on one execution."""

    execution_id: str
    """Checked by every store, which knows how many partitions there are."""

    def reads(self) -> tuple[ReadRequest, ...]:
        """Its execution."""
        return ((EXECUTION, (self.execution_id,)),)


class Fence(Struct, frozen=True):
    """The proof of holding a lease. All three parts or none; -1 and empty mean not given."""

    lease_id: str = ""
    lease_epoch: int = -1
    attempt_id: str = ""

    @property
    def given(self) -> bool:
        """Whether any part was sent."""
        return bool(self.lease_id or self.attempt_id or self.lease_epoch >= 0)

    @property
    def whole(self) -> bool:
        """Whether every part was sent."""
        return bool(self.lease_id and self.attempt_id and self.lease_epoch >= 0)


NO_FENCE = Fence()
OPERATOR_OVERRIDE = "operator_override"
HOLDER_SOURCES = frozenset({"lease_holder", "worker"})
"""The sources of commands that must show a fence."""


class HolderCommand(ExecutionCommand[R_co], frozen=True, kw_only=True):
    """An operation of the lease holder. `source` must be said when there is no fence."""

    fence: Fence = NO_FENCE
    source: str = "worker"

    def check(self) -> None:
        """Refuse ill-formed fence parts; whether the shape is enough is decided with the record."""
        Command.check(self)
        if self.source != "worker":
            checks.text("source", self.source, max_bytes=MAX_NAME_BYTES, empty=True)
        fence = self.fence
        if fence.lease_id:
            check_uuid("fence.lease_id", fence.lease_id)
        if fence.attempt_id:
            check_uuid("fence.attempt_id", fence.attempt_id)
        checks.integer("fence.lease_epoch", fence.lease_epoch, -1, MAX_INT)


PAGE_MAX = 1_000


class Question(Command[R_co], frozen=True, kw_only=True):
    """Base of everything that only reads."""


class ExecutionQuestion(ExecutionCommand[R_co], Question[R_co], frozen=True, kw_only=True):
    """A question about one execution; refused with `execution_not_found` when there is none."""


class Page(Struct, frozen=True):
    """Base of pages; `next` is 0 or empty on the last one."""


def check_limit(value: int, high: int = PAGE_MAX) -> None:
    """Refuse a page size outside 1..`high`."""
    checks.integer("limit", value, 1, high)


def check_cursor(after: int) -> None:
    """Refuse a cursor that is not a position."""
    checks.integer("after", after, 0, MAX_INT)


class CursorQuestion(Question[R_co], frozen=True, kw_only=True):
    """Base of questions that page through numbered positions."""

    after: int = 0
    limit: int = 100

    def check(self) -> None:
        """Check cursor and limit."""
        super().check()
        check_cursor(self.after)
        check_limit(self.limit)


class NamespaceQuestion(Question[R_co], frozen=True, kw_only=True):
    """Base of lists that can be narrowed to one namespace."""

    namespace: str = ""
    """Only what belongs to this one; empty: everything."""
    limit: int = PAGE_MAX

    def check(self) -> None:
        """Check name and limit."""
        super().check()
        checks.name("namespace", self.namespace, empty=True)
        check_limit(self.limit)
