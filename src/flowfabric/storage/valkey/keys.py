"""Key names for reading; `lua/keys.lua` has the same names for writing, and says what each key holds.

What belongs to one execution begins with its id. What stands for many executions begins with a home: `ff:` on a single
server, `ff:{fp:N}:` for each partition of a cluster, where `ff:{ff}:` is the home of what belongs to no partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from copy import copy
from typing import Any, Final

from flowfabric.model.command import Command, ExecutionCommand
from flowfabric.model.ids import partition_in, partition_of
from flowfabric.model.records import Queue

PREFIX: Final = "ff:"
SINGLE: Final = "ff:"
COMMON: Final = "ff:{ff}:"
CHANNEL: Final = "ff:wake:"

ARRIVALS: Final = "arrivals"
FEED: Final = "feed"
FEED_FLOOR: Final = "feed:floor"
DUE: Final = "due"
TALLY: Final = "tally"
INBOX: Final = "inbox"
MEMOS: Final = "memos"
MEMO: Final = "memo:"
LANES: Final = "lanes"
WORKERS: Final = "workers"
WORKERS_BY_NAME: Final = "workers:names"
TOKENS: Final = "tokens"
KEYRING: Final = "keyring"
KINDS: Final = "kinds"
"""Hash namespace \\0 name: kinds that workers have published."""
KIND_NAMES: Final = "kinds:names"
"""Hash namespace \\0: the names of its kinds."""
KIND_NAMESPACES: Final = "kinds:namespaces"
TICK: Final = "tick"
STORE: Final = "store"
"""Marker of ours: the format, and the partition counts that were set at the first boot."""
CLAIM: Final = "claim:"
STATE: Final = "state:"
LEASES: Final = "leases:"

_PAIRS: Final = {"worker": WORKERS, "kind": KINDS}
_SINGLE: Final = {"keyring": KEYRING, "kind_namespaces": KIND_NAMESPACES}
_OWNED: Final = frozenset({"attempt", "waitpoint", "stream", "summary", "step"})


class Layout:
    """Which homes there are."""

    def __init__(self, partitions: int, *, clustered: bool) -> None:
        self.clustered = clustered
        self.width = partitions
        self.common = COMMON if clustered else SINGLE
        self.homes = tuple(f"ff:{{fp:{n}}}:" for n in range(partitions)) if clustered else (SINGLE,)

    def within(self, home: str) -> Layout:
        """Return the layout of one home alone: what a function that is told this home can reach."""
        part = copy(self)
        part.common, part.homes = home, (home,)
        return part

    def home_of(self, execution_id: str) -> str:
        """Return the home of an execution."""
        return self.homes[0] if len(self.homes) == 1 else self.homes[partition_in(execution_id)]

    def home_of_key(self, namespace: str, key: str) -> str:
        """Return the home of an idempotency key: where ids that are minted for it live."""
        if len(self.homes) == 1:
            return self.homes[0]
        return self.homes[partition_of(f"{namespace}\0{key}".encode(), self.width)]

    def home_for(self, command: Command[Any]) -> str:
        """Return the home in which a command is decided."""
        if self.clustered and isinstance(command, ExecutionCommand):
            return self.home_of(command.execution_id)
        return self.common

    def place(self, kind: str, key: tuple[Any, ...]) -> tuple[str, str | None]:
        """Return where a record of a kind lies: its key, and its field when the key is a hash."""
        if kind in _OWNED:
            return f"ff:{key[0]}:{kind}", str(key[1])
        if kind == "result":
            return f"ff:{key[0]}:result:{key[1]}", None
        if kind == "signal":
            return f"ff:{key[0]}:signal:{key[1]}", str(key[2])
        if kind == "suspension":
            return f"ff:{key[0]}:suspension", None
        if kind == "memo":
            home = self.home_of_key(*key[1:]) if key[0] == "create" else self.home_of(key[1])
            return home + MEMO + "\x1f".join(key), None
        if kind in _PAIRS:
            return self.common + _PAIRS[kind], "\0".join(key)
        if kind == "kind_names":  # the field of those for all must not be empty
            return self.common + KIND_NAMES, f"{key[0]}\0"
        if kind in _SINGLE:
            return self.common + _SINGLE[kind], None
        return self.common + {"lane": LANES, "token": TOKENS}[kind], str(key[0])

    def family(self, kind: str, prefix: tuple[Any, ...]) -> str:
        """Return the hash that holds all records of a kind whose keys begin with a prefix."""
        return self.place(kind, (*prefix, "", ""))[0]


def execution(execution_id: str) -> str:
    """Where the record of an execution lies."""
    return f"ff:{execution_id}"


def payload(execution_id: str) -> tuple[str, str]:
    """Where its input and its policy lie."""
    return f"ff:{execution_id}:input", f"ff:{execution_id}:policy"


def history(execution_id: str) -> str:
    """Where the positions of its history lie."""
    return f"ff:{execution_id}:history"


def steps(execution_id: str) -> str:
    """Where the names of its steps lie, by call."""
    return f"ff:{execution_id}:steps"


def heads(execution_id: str) -> str:
    """Where all but the results of its steps lies, by name."""
    return f"ff:{execution_id}:heads"


def frames(execution_id: str, attempt: int) -> str:
    """Where the frames of an attempt lie."""
    return f"ff:{execution_id}:frames:{attempt}"


def partition(index: int, namespace: str = "") -> str:
    """Where the ids of a partition lie, or those of one namespace in it."""
    name = f"ff:{{fp:{index}}}:ids"
    return f"{name}:{namespace}" if namespace else name


def of_namespace(namespace: str, name: str) -> str:
    """Name the part of a list that belongs to a namespace, in a home; the list itself when none is given."""
    return f"in:{namespace}\0{name}" if namespace else name


def any_lane(public_state: str) -> str:
    """Name the list of a state; only namespaces have such ones, in a home."""
    return f"any:{public_state}"


def route(of: Queue) -> str:
    """Name the claimable work of a route, in a home."""
    return f"{CLAIM}{of.lane_id}\0{route_name(of)}"


def route_name(of: Queue) -> str:
    """Name a route inside its lane."""
    return f"{of.execution_kind}\0{','.join(of.capabilities)}"


def read_route(lane_id: str, name: bytes) -> Queue:
    """Read the name of a route."""
    kind, _, capabilities = name.decode().partition("\0")
    return Queue(lane_id, kind, tuple(capabilities.split(",")) if capabilities else ())


def routes(lane_id: str) -> str:
    """Name the routes of a lane, in a home."""
    return f"routes:{lane_id}"


def state(lane_id: str, public_state: str) -> str:
    """Name the list of a lane and a state, in a home."""
    return f"{STATE}{lane_id}\0{public_state}"


def tag(name: str, value: str) -> str:
    """Name the list of a tag, in a home."""
    return f"tag:{name}\0{value}"


def flow(flow_id: str) -> str:
    """Name the list of a flow, in a home."""
    return f"flow:{flow_id}"


def leases(instance: str) -> str:
    """Name the leases of a worker instance, in a home."""
    return f"{LEASES}{instance}"


def serving(namespace: str, lane_id: str) -> str:
    """Name the groups of workers of a lane and a namespace that take the same, in the common home."""
    return f"serving:{namespace}\0{lane_id}"


def total(namespace: str) -> str:
    """Name the counts of a namespace, or of all without a name, in a home."""
    return f"total:{namespace}"


def tail(kind: str, field: bytes) -> tuple[Any, ...]:
    """Read the rest of a key from the field of a hash."""
    text = field.decode()
    return (int(text) if kind in {"attempt", "stream", "summary", "signal"} else text,)


def tallied(moves: Iterable[tuple[bytes, bytes | int]]) -> Counter[tuple[str, str, str]]:
    """Add up the moves of a tally: how many executions of a lane and a namespace are in a state.

    A move begins with no state at a creation, and ends with none at a purge. What was counted once is told, also when
    nothing is left of it.
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    for field, n in moves:
        lane, namespace, was, state = field.decode().split("\0")
        counts[lane, namespace, was] -= int(n)
        counts[lane, namespace, state] += int(n)
    return Counter({of: n for of, n in counts.items() if of[2]})
