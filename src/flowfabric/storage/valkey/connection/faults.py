"""What the server or the way to it can get wrong, as our errors."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from typing import Final

from libvalkey import ReplyError
from valkey.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    MasterDownError,
    ResponseError,
    ValkeyError,
)

from flowfabric.model.errors import (
    FlowFabricError,
    InternalError,
    StoreBusy,
    StoreFull,
    StoreUnusable,
    Unreachable,
)
from flowfabric.storage.valkey.lua.library import source_of

NO_FUNCTION: Final = "ERR Function not found"
REDIRECTS: Final = frozenset({"MOVED", "ASK"})


class NotAsked(Unreachable):
    """Nothing was done, so that asking again, there or elsewhere, is safe."""


class Redirected(NotAsked):
    """Another server of the cluster holds the slot (`MOVED`), or will (`ASK`)."""

    def __init__(self, text: str, word: str, address: str) -> None:
        super().__init__(text)
        self.word = word
        self.address = address


_BY_WORD: Final[dict[str, type[FlowFabricError]]] = {
    "OOM": StoreFull,
    "MISCONF": StoreFull,
    "LOADING": StoreBusy,
    "BUSY": StoreBusy,
    "TRYAGAIN": NotAsked,
    "CLUSTERDOWN": NotAsked,
    "MASTERDOWN": NotAsked,
    "READONLY": NotAsked,
    "NOREPLICAS": Unreachable,
    "UNBLOCKED": Unreachable,
    "NOAUTH": StoreUnusable,
    "WRONGPASS": StoreUnusable,
    "NOPERM": StoreUnusable,
}
_REMEDIES: Final[dict[str, str]] = {
    "OOM": "give the server more memory (maxmemory) or let finished work go earlier; nothing was written",
    "MISCONF": "the server cannot write its files: see its log; nothing was written",
    "READONLY": "this server is a replica; ask again to reach the primary; nothing was written",
    "NOREPLICAS": "fewer replicas follow than min-replicas-to-write asks for; nothing was written",
    "NOPERM": "the user needs more rights: see the guide on Valkey",
}
_ARGUMENTS: Final = ", with args beginning with"
"""What follows in a complaint about a command is its arguments, which are nobody's business."""
_WHERE: Final = re.compile(r" script: on @user_function:\d+\.$")
_LINE: Final = re.compile(r"user_function:(\d+)")
"""Where in the library a function has failed."""
_CUT: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""The connection ended while TLS was being agreed on, which is nobody's opinion about TLS."""
_INSIDE: Final = "ERR ACL failure"
"""How a function is told that its caller lacks a right."""
LEAVE: Final = frozenset({"READONLY", "MASTERDOWN"})
"""This node cannot be written to: another connection may reach one that can."""


def first_word(error: ReplyError) -> str:
    """Return what the server calls an error."""
    return str(error).partition(" ")[0]


def of_reply(error: ReplyError, what: str) -> FlowFabricError:
    """Translate an error that the server answered."""
    if str(error).startswith(NO_FUNCTION):  # it was loaded a moment ago
        return StoreBusy(f"{what}: somebody removes the function library; nothing was done, try again")
    word = "NOPERM" if str(error).startswith(_INSIDE) else first_word(error)
    if word in REDIRECTS:
        return Redirected(f"{what}: {error}", word, str(error).rpartition(" ")[2])
    remedy = _REMEDIES.get(word, "")
    text = _LINE.sub(_source, _WHERE.sub("", str(error).partition(_ARGUMENTS)[0]))
    return _BY_WORD.get(word, InternalError)(f"{what}: {text}{f' ({remedy})' if remedy else ''}")


def _source(found: re.Match[str]) -> str:
    return source_of(int(found[1]))


def of_connecting(error: Exception, where: str) -> FlowFabricError:
    """Translate what went wrong on the way to the server; nothing was asked yet."""
    if isinstance(error, AuthenticationError | AuthorizationError):
        return StoreUnusable(f"{where} refuses the user or the password: {error}")
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return StoreUnusable(
                f"{where} shows a certificate that is not trusted: {cause.verify_message}; name the file of its "
                "authority with ?ssl_ca_certs=…, and use a host name that the certificate holds"
            )
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, _CUT):
            return StoreUnusable(f"{where} does not speak TLS as expected: {cause.reason or cause}")
        if isinstance(cause, FileNotFoundError):
            return StoreUnusable(f"{where}: a file of the address is not there: {cause}")
    if isinstance(error, BusyLoadingError):
        return StoreBusy(f"{where} is loading its data; try again")
    if isinstance(error, ResponseError) and not isinstance(error, MasterDownError):
        return StoreUnusable(f"{where} refuses the connection: {error}")
    if isinstance(error, ValkeyError | OSError | TimeoutError):
        return NotAsked(f"{where} cannot be reached: {str(error) or type(error).__name__}")
    return InternalError(f"{where}: {error!r}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Go back to what was raised first; the library wraps it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
