"""One request as handlers see it, and what they answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import Struct

from flowfabric.model.command import Command, Question
from flowfabric.model.errors import FlowFabricError, refuse
from flowfabric.model.ids import Partitions
from flowfabric.model.operations.read import GetExecution
from flowfabric.server.access.audit import NEEDED
from flowfabric.server.access.auth import authorize
from flowfabric.server.access.roles import ANYBODY, Principal
from flowfabric.storage.base import Upkeep
from flowfabric.storage.minting import new_uuid
from flowfabric.wire.errors import HttpError
from flowfabric.wire.fields import path_execution
from flowfabric.wire.rights import Right

if TYPE_CHECKING:
    from flowfabric.server.server import Server

R = TypeVar("R")
NO_STORE: Final = (("cache-control", "no-store"),)
"""The header of answers that hold a credential."""
GLANCES: Final = 4
"""How often the loop turns between the close of a connection and its being known."""


class Response(Struct, frozen=True):
    """A JSON answer.

    `raw` replaces the value by bytes, `parts` by bytes each part of which is let go when it has left, `pieces` by a
    source of bytes, and `response` by something live.
    """

    value: Any = None
    status: int = 200
    raw: bytes | None = None
    parts: list[bytes] | None = None
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    pieces: AsyncGenerator[bytes, None] | None = None
    response: Any = None


class ClientGone(HttpError):
    """Nobody waits for the answer any more; nobody reads this one either."""

    def __init__(self) -> None:
        super().__init__(499, "the client went away", "client_gone", kind="client_gone")


class ServerStopping(HttpError):
    """The server ends; whoever waits may ask another one, or this one when it is back."""

    def __init__(self) -> None:
        super().__init__(
            503, "the server is shutting down", "unavailable", kind="unavailable", retryable=True
        )


class TokenRevoked(HttpError):
    """The token was deleted or has expired while something went on in its name."""

    def __init__(self) -> None:
        super().__init__(
            401, "the token was deleted or has expired meanwhile", "unauthorized", kind="unauthorized"
        )


class ServerCall:
    """A request that was let in: checked, limited, decoded."""

    __slots__ = (
        "behalf",
        "body",
        "classic",
        "held",
        "path",
        "principal",
        "query",
        "receive",
        "request_id",
        "scope",
        "server",
    )

    def __init__(
        self,
        server: Server,
        scope: Any,
        principal: Principal,
        path: dict[str, str],
        request_id: str,
    ) -> None:
        self.server = server
        self.scope = scope
        self.principal = principal
        self.path = path
        self.body: Any = None
        """The decoded body."""
        self.request_id = request_id
        self.held: AsyncExitStack
        """What is given back when the answer has left."""
        self.receive: Any = None
        """The rest of the request, for handlers that wait: it tells when the client goes away."""
        self.behalf = ""
        """On whose behalf an administrator asks, where it said so."""
        self.query: Any = None
        """The decoded query."""

    @property
    def store(self) -> Upkeep:
        """The store behind the server."""
        return self.server.store

    async def apply(self, command: Command[R]) -> R:
        """Send a command to the store in the name of the principal."""
        return await self.server.apply(command, self.principal.namespace)

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Send several commands, each on its own; refusals come back in place."""
        return await self.server.apply_many(commands, self.principal.namespace) if commands else []

    def namespace(self, asked: str | None) -> str:
        """Return the namespace to write to: the one asked for, else that of the token; refuse any other."""
        bound = self._bound(asked)
        return asked if asked is not None else bound or "default"

    def claim_namespace(self, asked: str | None) -> str:
        """Return the namespace to claim from: the one asked for, else that of the token; empty for all."""
        return self.namespace(asked) if self.principal.namespace or asked is not None else ""

    def own_namespace(self, asked: str | None) -> str:
        """Return the namespace whose kinds a token writes: its own, else the one asked for; empty for all."""
        return self._bound(asked) or asked or ""

    def _bound(self, asked: str | None) -> str:
        bound = self.principal.namespace
        if bound and asked not in {None, bound}:
            raise HttpError(403, f"this token is bound to namespace {bound}", "forbidden", kind="forbidden")
        return bound

    @property
    def partitions(self) -> Partitions:
        """Return how execution ids are spread."""
        return self.store.partitions

    def now(self) -> int:
        """Return the time of the store."""
        return self.store.now()

    def new_id(self) -> str:
        """Return a random UUID."""
        return new_uuid()

    async def read(self, question: Question[R]) -> R:
        """Ask the store."""
        return await self.store.read(question)

    async def visible(self, execution_id: str) -> None:
        """Refuse an execution that the principal may not see as one that is not there.

        The gate asks this for the execution that a path names; handlers ask it for those that a body names.
        """
        if self.principal.namespace:
            run = await self.read(GetExecution(execution_id=execution_id))
            if run.namespace != self.principal.namespace:
                raise refuse("execution_not_found", field="execution_id")

    def check_room(self, size: int) -> None:
        """Refuse to answer with so many bytes when too much waits to be read already."""
        self.server.unread.check(size)

    def demand(self, right: Right) -> None:
        """Refuse who may not, where that depends on more than the route."""
        self.scope[NEEDED] = right
        authorize(self.principal, right)

    async def while_connected(
        self, work: Coroutine[Any, Any, R], give_back: Callable[[R], Awaitable[None]] | None = None
    ) -> R:
        """Wait for something as long as the client waits, its token opens, and the server serves; then cancel it.

        What the work brought in that very moment is handed to `give_back`.
        """
        doing = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(self._client_gone())
        stopping = asyncio.ensure_future(self.server.stopping.wait())
        revoked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        tasks = (doing, gone, stopping, revoked)

        def revoke() -> None:
            if not revoked.done():
                revoked.set_result(None)

        try:
            with self.server.revocation.watching(self.principal, revoke):
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for _ in range(GLANCES if give_back is not None else 0):
                await asyncio.sleep(0)  # a farewell that has arrived already is heard in time
            if doing.done() and not gone.done() and not revoked.done():
                return doing.result()
            doing.cancel()
            await asyncio.wait((doing,))
            if give_back is not None and not doing.cancelled() and doing.exception() is None:
                await give_back(doing.result())
            raise ClientGone if gone.done() else TokenRevoked if revoked.done() else ServerStopping
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _client_gone(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass

    @property
    def query_text(self) -> str:
        """The query as it was sent."""
        text: bytes = self.scope["query_string"]
        return text.decode("latin-1")

    @property
    def execution_id(self) -> str:
        """The execution that the path names; a malformed one is refused."""
        return path_execution(self.path["id"], self.store.partitions)

    @property
    def actor(self) -> str:
        """Who acts, for the history."""
        return self.behalf or self.principal.name

    def author(self, named: str) -> str:
        """Who creates: the name of a token counts more than what its holder says, and nobody's name less."""
        return self.actor if self.behalf or self.principal is not ANYBODY else named or self.actor


def encode(value: Any) -> bytes:
    """Write JSON."""
    return msgspec.json.encode(value)
