"""The engine over HTTP: the same commands and questions, sent to a running `ff server`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from importlib.util import find_spec
from typing import Any, Final, Self, TypeVar, cast

import msgspec

from flowfabric.client import batches
from flowfabric.client.address import Address, read_address
from flowfabric.client.failures import UNEXPLAINED
from flowfabric.client.inside import Inside
from flowfabric.client.reading import read_frames
from flowfabric.client.requests import answer_type, not_offered, question_request, request_of
from flowfabric.client.transport import HttpRequest, Limits, Transport
from flowfabric.client.waiting import give_back, within
from flowfabric.client.wakeups import WakeupStreams
from flowfabric.model.command import Command, ExecutionCommand, Question
from flowfabric.model.errors import (
    Conflict,
    FlowFabricError,
    InternalError,
    InvalidInput,
    NotFound,
    NotOffered,
    StoreUnusable,
    invalid,
)
from flowfabric.model.ids import Partitions, check_execution_id
from flowfabric.model.operations.access import ApprovalLink, LinkRequest
from flowfabric.model.operations.claim import Claim, Claimed
from flowfabric.model.operations.read import GetExecution
from flowfabric.model.operations.stream import ReadStream, StreamPage, TailStream
from flowfabric.model.records import Execution
from flowfabric.model.state import Phase
from flowfabric.storage.base import StoreTraits, Subscription
from flowfabric.storage.extras import install_command
from flowfabric.wire import routes_by_command, routes_by_question
from flowfabric.wire.access import CREATE_LINK, LinkBody
from flowfabric.wire.answers import decoded
from flowfabric.wire.read import STATS, WAIT

R = TypeVar("R")
AT_ONCE: Final = 16
"""How many commands of one `apply_many` are under way together where there is no batch for them."""


class HttpClient(Inside):
    """A running server, used as a store is: `async with await HttpClient.open("http://localhost:9090") as ff: …`.

    It offers what `Commands` names: clients and workers need not know whether they hold this or a store. What stays
    inside the server is refused with `not_offered`, which says what to do instead.
    """

    def __init__(self, address: Address, partitions: Partitions, transport: Transport) -> None:
        self._address = address
        self._partitions = partitions
        self._transport = transport
        self._wakeups = WakeupStreams(transport)
        self._background: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        token: str = "",
        limits: Limits | None = None,
        chance: Callable[[], float] = random.random,
    ) -> Self:
        """Reach a server; the token may also stand in the URL (`http://:token@host:port`).

        Raises `Unreachable` when no server answers there, and `Unauthorized` when it wants another token.
        """
        address = read_address(url, token)
        if find_spec("aiohttp") is None:
            raise invalid("url", f"http:// needs aiohttp: {install_command('http')}")
        transport = Transport(address, limits or Limits(), chance)
        try:
            stats = await _stats(transport)
            partitions = Partitions(**stats["partitions"]) if "partitions" in stats else Partitions()
        except BaseException:
            await transport.close()
            raise
        return cls(address, partitions, transport)

    def __repr__(self) -> str:
        return f"HttpClient({self._address.base!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def partitions(self) -> Partitions:
        """How ids are spread; the server said so when it was reached."""
        return self._partitions

    @property
    def traits(self) -> StoreTraits:
        """What a server can do for its clients."""
        return StoreTraits(is_direct=False, waits_remotely=True, makes_links=True)

    async def close(self) -> None:
        """Close every connection, once what is left to do in the background is done."""
        await self._wakeups.close()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._transport.close()

    def subscribe(
        self, topics: Iterable[str], namespace: str = ""
    ) -> AbstractAsyncContextManager[Subscription]:
        """Listen to topics: `lane:<lane>`, `execution:<id>`, `worker:<instance>`, `feed`."""
        if namespace:
            raise NotOffered(
                "wake-ups of one namespace are not offered over HTTP: use a token that is bound to it"
            )
        return self._wakeups.subscribe(topics)

    async def apply(self, command: Command[R]) -> R:
        """Send one command; raise the error that refuses it."""
        self._check(command)
        return cast("R", await self._sent(command))

    async def apply_many(self, commands: Sequence[Command[R]]) -> list[R | FlowFabricError]:
        """Send several commands, in batches where the server has them; refusals are returned in place."""
        replies: list[Any] = [None] * len(commands)
        sound: list[tuple[int, Command[Any]]] = []
        for place, command in enumerate(commands):
            try:
                self._check(command)
                sound.append((place, command))
            except FlowFabricError as error:
                replies[place] = error
        room = asyncio.Semaphore(AT_ONCE)

        async def run(work: batches.Batch) -> None:
            async with room:
                for place, answer in zip(work.places, await self._batch(work), strict=True):
                    replies[place] = answer

        async with asyncio.TaskGroup() as tasks:
            for work in batches.split(sound):
                tasks.create_task(run(work))
        return replies

    async def read(self, question: Question[R]) -> R:
        """Ask a question."""
        self._check(question)
        if isinstance(question, ReadStream | TailStream):
            return cast("R", await read_frames(question, self._ask))
        return cast("R", await self._ask(question))

    # Waiting in the server: see `flowfabric.engine`, whose functions use these where a store has them.

    async def claim_within(self, claim: Claim, wait_ms: int) -> Claimed:
        """Claim; when there is nothing, let the server wait for something."""
        self._check(claim)

        async def ask(left_ms: int) -> Claimed:
            return cast(
                "Claimed", await self._send(claim, request_of(claim, left_ms / 1000, wait_ms=left_ms))
            )

        try:
            return await within(wait_ms, ask, lambda claimed: bool(claimed.tasks))
        except asyncio.CancelledError:
            self._later(give_back(self, claim))
            raise

    async def tail_within(self, question: TailStream, wait_ms: int) -> StreamPage:
        """Read what follows a cursor; when there is nothing, let the server wait for something."""
        self._check(question)

        async def ask(left_ms: int) -> StreamPage:
            return cast("StreamPage", await self._ask(question, left_ms / 1000, block_ms=str(left_ms)))

        return await within(wait_ms, ask, lambda page: bool(page.last or page.closed_at))

    async def end_within(self, execution_id: str, wait_ms: int) -> Execution:
        """Return the execution when it has ended, or as it is when the time is over."""
        question = GetExecution(execution_id=execution_id)
        self._check(question)
        path = WAIT.write_path(question)

        async def ask(left_ms: int) -> Execution:
            query = {"timeout_ms": str(left_ms)}
            await self._transport.send(
                HttpRequest(
                    method=WAIT.method, path=path, query=query, safe=True, wait_seconds=left_ms / 1000
                )
            )
            return await self.read(question)

        return await within(wait_ms, ask, lambda run: run.lifecycle_phase is Phase.TERMINAL)

    async def make_link(self, link: LinkRequest) -> ApprovalLink:
        """Make a link to a page of the server whose visitor may send one signal to a waitpoint, once."""
        body = LinkBody(
            None,
            link.signal_names,
            link.expires_in_ms or None,
            link.expires_at or None,
            link.source_identity or None,
            link.link_id or None,
        )
        request = HttpRequest(
            method=CREATE_LINK.method,
            path=CREATE_LINK.write_path(link),
            body=msgspec.json.encode(body),
            safe=CREATE_LINK.safe(link),
        )
        return cast("ApprovalLink", decoded((await self._transport.send(request)).body, ApprovalLink))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="flowfabric-client")
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _check(self, command: Command[Any]) -> None:
        """Refuse what any store would refuse before looking at a record, and what does not cross HTTP."""
        if type(command) not in routes_by_command() and type(command) not in routes_by_question():
            raise not_offered(command)
        if isinstance(command, ExecutionCommand):
            check_execution_id(command.execution_id, self._partitions)
        command.check()

    async def _sent(self, command: Command[Any]) -> Any:
        if type(command) in routes_by_question():
            return await self.read(cast("Question[Any]", command))
        return await self._send(command, request_of(command))

    async def _send(self, command: Command[Any], request: HttpRequest) -> Any:
        return routes_by_command()[type(command)].read_answer(command, await self._transport.send(request))

    async def _ask(self, question: Question[Any], wait_seconds: float = 0.0, **more: str) -> Any:
        reply = await self._transport.send(question_request(question, wait_seconds, **more))
        return decoded(reply.body, answer_type(type(question)))

    async def _batch(self, work: batches.Batch) -> list[Any]:
        if work.send is None:
            return [await self._outcome(command) for command in work.commands]
        try:
            return await work.send(self._transport, work.commands)
        except FlowFabricError as error:
            return [error] * len(work.places)

    async def _outcome(self, command: Command[Any]) -> Any:
        try:
            return await self._sent(command)
        except FlowFabricError as error:
            return error


async def _stats(transport: Transport) -> dict[str, Any]:
    """Ask a server about itself; what answers otherwise than ours do is another program."""
    foreign = "something answers there, but it is no FlowFabric server; check host and port of the URL"
    try:
        reply = await transport.send(HttpRequest(method=STATS.method, path=STATS.path, safe=True))
        stats = msgspec.json.decode(reply.body)
    except (NotFound, InvalidInput, Conflict, ValueError, RecursionError) as error:
        raise StoreUnusable(foreign) from error
    except InternalError as error:  # a redirect, or a failure without a body of ours
        raise (StoreUnusable(foreign) if error.text.startswith(UNEXPLAINED) else error) from error
    if not isinstance(stats, dict) or not {"version", "partitions"} & stats.keys():
        raise StoreUnusable(foreign)
    return stats
