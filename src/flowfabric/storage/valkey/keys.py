"""Key names for reading; `lua/keys.lua` has the same names for writing, and says what each key holds."""

from __future__ import annotations

from typing import Any, Final

from flowfabric.model.records import Route

PREFIX: Final = "ff:"
ARRIVALS: Final = "ff:arrivals"
FEED: Final = "ff:feed"
FEED_FLOOR: Final = "ff:feed:floor"
DUE: Final = "ff:due"
TALLY: Final = "ff:tally"
INBOX: Final = "ff:inbox"
MEMOS: Final = "ff:memos"
MEMO: Final = "ff:memo:"
LANES: Final = "ff:lanes"
WORKERS: Final = "ff:workers"
TOKENS: Final = "ff:tokens"
KEYRING: Final = "ff:keyring"
STORE: Final = "ff:store"
"""Marker of ours: the format, and the partition counts that were set at the first boot."""
CHANNEL: Final = "ff:wake:"
CLAIM: Final = "ff:claim:"
STATE: Final = "ff:state:"
LEASES: Final = "ff:leases:"

_OWNED: Final = frozenset({"result", "attempt", "waitpoint", "stream", "summary", "step"})


def execution(execution_id: str) -> str:
    """Where the record of an execution lies."""
    return f"ff:{execution_id}"


def payload(execution_id: str) -> tuple[str, str]:
    """Where its input and its policy lie."""
    return f"ff:{execution_id}:input", f"ff:{execution_id}:policy"


def history(execution_id: str) -> str:
    """Where the positions of its history lie."""
    return f"ff:{execution_id}:history"


def frames(execution_id: str, attempt: int) -> str:
    """Where the frames of an attempt lie."""
    return f"ff:{execution_id}:frames:{attempt}"


def partition(index: int) -> str:
    """Where the ids of a partition lie."""
    return f"ff:{{fp:{index}}}:ids"


def route(of: Route) -> str:
    """Where the claimable work of a route lies."""
    return f"{CLAIM}{of.lane_id}\0{route_name(of)}"


def route_name(of: Route) -> str:
    """Name a route inside its lane."""
    return f"{of.execution_kind}\0{','.join(of.capabilities)}"


def read_route(lane_id: str, name: bytes) -> Route:
    """Read the name of a route."""
    kind, _, capabilities = name.decode().partition("\0")
    return Route(lane_id, kind, tuple(capabilities.split(",")) if capabilities else ())


def routes(lane_id: str) -> str:
    """Where the routes of a lane lie."""
    return f"ff:routes:{lane_id}"


def state(lane_id: str, public_state: str) -> str:
    """Where the list of a lane and a state lies."""
    return f"{STATE}{lane_id}\0{public_state}"


def tag(name: str, value: str) -> str:
    """Where the list of a tag lies."""
    return f"ff:tag:{name}\0{value}"


def flow(flow_id: str) -> str:
    """Where the list of a flow lies."""
    return f"ff:flow:{flow_id}"


def leases(instance: str) -> str:
    """Where the leases of a worker instance lie."""
    return f"{LEASES}{instance}"


def place(kind: str, key: tuple[Any, ...]) -> tuple[str, str | None]:
    """Return where a record of a kind lies: its key, and its field when the key is a hash."""
    if kind in _OWNED:
        return f"ff:{key[0]}:{kind}", str(key[1])
    if kind == "signal":
        return f"ff:{key[0]}:signal:{key[1]}", str(key[2])
    if kind == "suspension":
        return f"ff:{key[0]}:suspension", None
    if kind == "memo":
        return MEMO + "\x1f".join(key), None
    if kind == "worker":
        return WORKERS, "\0".join(key)
    if kind == "keyring":
        return KEYRING, None
    return {"lane": LANES, "token": TOKENS}[kind], str(key[0])


def family(kind: str, prefix: tuple[Any, ...]) -> str:
    """Return the hash that holds all records of a kind whose keys begin with a prefix."""
    return place(kind, (*prefix, "", ""))[0]


def tail(kind: str, field: bytes) -> tuple[Any, ...]:
    """Read the rest of a key from the field of a hash."""
    text = field.decode()
    return (int(text) if kind in {"attempt", "result", "stream", "summary", "signal"} else text,)
