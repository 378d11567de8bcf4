"""What the server or the way to it can get wrong, as our errors."""

from __future__ import annotations

from typing import Final

from libvalkey import ReplyError
from valkey.exceptions import AuthenticationError, AuthorizationError, ValkeyError

from flowfabric.model.errors import (
    FlowFabricError,
    InternalError,
    StoreBusy,
    StoreFull,
    StoreUnusable,
    Unreachable,
)

NO_FUNCTION: Final = "ERR Function not found"

_BY_WORD: Final[dict[str, type[FlowFabricError]]] = {
    "OOM": StoreFull,
    "MISCONF": StoreFull,
    "LOADING": StoreBusy,
    "BUSY": StoreBusy,
    "TRYAGAIN": StoreBusy,
    "CLUSTERDOWN": Unreachable,
    "MASTERDOWN": Unreachable,
    "READONLY": Unreachable,
    "NOREPLICAS": Unreachable,
    "NOAUTH": StoreUnusable,
    "WRONGPASS": StoreUnusable,
    "NOPERM": StoreUnusable,
}
LEAVE: Final = frozenset({"READONLY", "MASTERDOWN"})
"""This node cannot be written to: another connection may reach one that can."""


def first_word(error: ReplyError) -> str:
    """Return what the server calls an error."""
    return str(error).partition(" ")[0]


def of_reply(error: ReplyError, what: str) -> FlowFabricError:
    """Translate an error that the server answered."""
    kind = _BY_WORD.get(first_word(error), InternalError)
    return kind(f"{what}: {error}")


def of_connecting(error: Exception, where: str) -> FlowFabricError:
    """Translate what went wrong on the way to the server; nothing was asked yet."""
    if isinstance(error, AuthenticationError | AuthorizationError):
        return StoreUnusable(f"{where} refuses the user or the password: {error}")
    if isinstance(error, ValkeyError | OSError | TimeoutError):
        return Unreachable(f"{where} cannot be reached: {str(error) or type(error).__name__}")
    return InternalError(f"{where}: {error!r}")
