"""The store on one Valkey server.

A question is answered by the machine of this process from the server's records. A command is decided by the same
machine and written by one function, which makes sure that nothing has changed meanwhile (unit.py); those that are sent
for every task have a fast path, a function that decides inside the server (operations/).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from enum import Enum, auto
from itertools import groupby
from typing import Any, Final, NamedTuple, Self, TypeVar, cast

from libvalkey import ReplyError

from flowfabric.model.command import Command, Question
from flowfabric.model.errors import FlowFabricError, InternalError, Unreachable
from flowfabric.model.ids import Partitions
from flowfabric.model.machine.workspace import Workspace
from flowfabric.model.operations.timer import Purge
from flowfabric.storage.base import Clock, Dump, RepairReport
from flowfabric.storage.store_base import StoreBase
from flowfabric.storage.valkey.cluster.cluster import Cluster
from flowfabric.storage.valkey.connection.client import Client
from flowfabric.storage.valkey.connection.faults import of_reply
from flowfabric.storage.valkey.connection.wakeups import Wakeups
from flowfabric.storage.valkey.connection.wire import CALL_SECONDS
from flowfabric.storage.valkey.keys import SINGLE, Layout
from flowfabric.storage.valkey.opening.boot import prepare
from flowfabric.storage.valkey.opening.patience import Patience
from flowfabric.storage.valkey.operations import Call, fast_call
from flowfabric.storage.valkey.requests import EACH, NAMES, PAUSE, Gathered, Plan, Request
from flowfabric.storage.valkey.sight import EVERYTHING, Sight
from flowfabric.storage.valkey.unit import Unit, read
from flowfabric.storage.valkey.upkeep import inspect
from flowfabric.storage.valkey.upkeep.mending import Mender
from flowfabric.storage.wake import Listener

R = TypeVar("R")
CLOCK_SECONDS: Final = 5.0
"""How often the server's clock is looked at; commands are decided by it anyway, reads by what was seen last."""
MOST: Final = 16
"""So many commands share a commit."""


class Turn(NamedTuple):
    """One of the commands that are decided together."""

    command: Command[Any]
    chance: float
    """What was drawn for it; one draw for each, as on every store."""
    call: Call | None = None
    """Its fast path, if it has one."""


class Way(Enum):
    """How a command is decided."""

    FAST = auto()
    GENERAL = auto()
    WHEN_FULL = auto()
    """Generally, and also when no memory is left: apart from what must not."""
    APART = auto()


class ValkeyStore(StoreBase):
    """Executions in a Valkey server."""

    def __init__(
        self,
        client: Client | Cluster,
        clock: Clock | None,
        partitions: Partitions,
        chance: Callable[[], float],
        *,
        fast_paths: bool = True,
    ) -> None:
        super().__init__(clock or self._server_time, partitions)
        self._fast_paths = fast_paths
        self._client = client
        self._layout = Layout(partitions.flow, clustered=False)
        self._own_clock = clock
        self._ahead = 0
        self._chance = chance
        self._wakeups = Wakeups(client, self.hub, self._told, self._deaf)
        self._watch: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        clock: Clock | None = None,
        partitions: Partitions | None = None,
        chance: Callable[[], float] = random.random,
        timeout: float = CALL_SECONDS,  # noqa: ASYNC109 - of each call, for as long as the store is open
        wait: int = 0,
        patience: float = 0.0,
        fast_paths: bool = True,
    ) -> Self:
        """Open `valkey://[user:password@]host[:port][/database]`. Without a clock the server's decides.

        With `wait`, a command is answered only when so many replicas have confirmed what it wrote; if they do not in
        time, the answer is `Unreplicated`: it was done, but a failover may undo it. With `patience`, a server that
        cannot be reached or is loading its data is given so many seconds. Without `fast_paths` every command goes the
        general way, which is slower and decides the same.
        """
        counts = partitions or Partitions()
        counts.check()
        client = cls._reach(url, timeout, wait)
        try:
            store = cls(client, clock, counts, chance, fast_paths=fast_paths)
            await store._prepare(Patience(patience))
            await store._start_clock()
        except BaseException:
            client.close()
            raise
        return store

    @staticmethod
    def _reach(url: str, timeout: float, wait: int) -> Client | Cluster:
        return Client(url, timeout, wait=wait)

    async def _prepare(self, patience: Patience) -> None:
        assert isinstance(self._client, Client)
        await prepare(self._client, self._partitions, patience)

    @property
    def client(self) -> Client | Cluster:
        """The way to the server, for tests that count."""
        return self._client

    # Time.

    def _server_time(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead

    async def _start_clock(self) -> None:
        await self._look_at_clock()
        if self._own_clock is None:
            self._watch = asyncio.create_task(self._watch_clock())

    async def _server_clock(self) -> list[bytes]:
        time: list[bytes] = await self._client.call("TIME")
        return time

    async def _look_at_clock(self) -> None:
        seconds, micros = await self._server_clock()
        self._ahead = int(seconds) * 1_000 + int(micros) // 1_000 - time.time_ns() // 1_000_000

    async def _watch_clock(self) -> None:
        while True:
            await asyncio.sleep(CLOCK_SECONDS)
            with contextlib.suppress(FlowFabricError):
                await self._look_at_clock()

    # Commands and questions.

    async def apply(self, command: Command[R]) -> R:
        """Decide one command; raise the error that refuses it."""
        self._check(command)
        call = self._fast_call(command)
        if call is None:
            (answer,) = await self._decide((command,))
        else:
            answer = await self._ask_function(call, self._chance())
        if isinstance(answer, FlowFabricError):
            raise answer
        return cast("R", answer)

    async def _decide(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Decide commands in their order; neighbours that go the same way go together."""
        turns = [Turn(each, self._chance(), self._fast_call(each)) for each in commands]
        replies: list[Any] = []
        for way, group in groupby(turns, key=self._way):
            some = list(group)
            if way is Way.FAST:
                replies += await self._ask_functions(some)
            elif way is Way.APART:
                replies += [await self._decide_apart(turn) for turn in some]
            else:
                replies += await self._decide_generally(some)
        return replies

    def _fast_call(self, command: Command[Any]) -> Call | None:
        return fast_call(command) if self._fast_paths else None

    def _way(self, turn: Turn) -> Way:
        """Say how a command is decided."""
        if turn.call is not None:
            return Way.FAST
        if isinstance(turn.command, Question):
            return Way.APART
        return Way.WHEN_FULL if type(turn.command) is Purge else Way.GENERAL

    async def _decide_apart(self, turn: Turn) -> Any:
        """Decide a command that shares its way with no other."""
        assert isinstance(turn.command, Question)
        try:
            return await self._ask(turn.command)
        except FlowFabricError as error:  # the others keep their answers
            return error

    async def _decide_generally(self, turns: Sequence[Turn]) -> list[Any]:
        """Decide commands of each home in their order, and homes side by side."""
        places: dict[str, list[int]] = defaultdict(list)
        for place, turn in enumerate(turns):
            places[self._layout.home_for(turn.command)].append(place)
        found = await asyncio.gather(
            *(self._commit_all(home, [turns[place] for place in some]) for home, some in places.items())
        )
        replies: list[Any] = [None] * len(turns)
        for some, answers in zip(places.values(), found, strict=True):
            for place, answer in zip(some, answers, strict=True):
                replies[place] = answer
        return replies

    async def _commit_all(self, home: str, turns: Sequence[Turn]) -> list[Any]:
        replies: list[Any] = []
        for at in range(0, len(turns), MOST):
            replies += await self._commit(home, turns[at : at + MOST])
        return replies

    async def _commit(self, home: str, turns: Sequence[Turn], sight: Sight = EVERYTHING) -> list[Any]:
        """Decide commands of one home by the machine in this process; write if nothing has changed meanwhile."""
        unit = Unit(self._layout, home, self.now, self._moment_at, own=self._own_clock is not None)
        commands, chances = [turn.command for turn in turns], [turn.chance for turn in turns]
        try:
            return await self._carry_out_in(home, unit.write(commands, chances, sight))
        except FlowFabricError as error:
            return [error] * len(turns)

    async def _carry_out_in(self, home: str, plan: Plan[list[Any]]) -> list[Any]:
        """Carry out a plan that reads and writes in one home."""
        try:
            requests = next(plan)
            while True:
                if requests[0][0] == PAUSE:
                    await asyncio.sleep(requests[0][1])
                    replies: list[Any] = [None]
                elif requests[0][0] == "FCALL":
                    replies = [self._noted(home, reply) for reply in await self._client.functions(requests)]
                else:
                    replies = await self._client.questions_in(home, requests)
                for reply in replies:
                    if isinstance(reply, FlowFabricError):
                        raise reply
                requests = plan.send(replies)
        except StopIteration as done:
            answers: list[Any] = done.value
            return answers

    def _noted(self, home: str, reply: Any) -> Any:  # noqa: ARG002 - a cluster tells more
        """Take in what an answer tells beside itself."""
        return reply

    async def _ask_functions(self, turns: Sequence[Turn]) -> list[Any]:
        now = self._time()
        calls = [(turn.call, turn.chance) for turn in turns if turn.call is not None]
        raw = await self._client.functions(
            [
                ("FCALL", call.operation.function, 1, SINGLE, now, repr(chance), *call.arguments)
                for call, chance in calls
            ]
        )
        return [read_answer(call, reply) for (call, _), reply in zip(calls, raw, strict=True)]

    async def _ask_function(self, call: Call, chance: float) -> Any:
        raw = await self._client.function(
            ("FCALL", call.operation.function, 1, SINGLE, self._time(), repr(chance), *call.arguments)
        )
        return read_answer(call, raw)

    async def _ask(self, question: Question[Any]) -> Any:
        try:
            return await self.carry_out(read(self._layout, Workspace(self.now()), question))
        except Unreachable:  # asking changes nothing, so it is asked once more, on a new connection
            return await self.carry_out(read(self._layout, Workspace(self.now()), question))

    async def carry_out(self, plan: Plan[Any]) -> Any:
        """Send what a plan asks, one write for each round of it."""
        try:
            requests = next(plan)
            while True:
                replies = await self._answers(requests)
                for reply, request in zip(replies, requests, strict=True):
                    if isinstance(reply, ReplyError):
                        raise of_reply(reply, str(request[0]))
                    if isinstance(reply, FlowFabricError):
                        raise reply
                requests = plan.send(replies)
        except StopIteration as done:
            return done.value

    async def _answers(self, requests: Sequence[Request]) -> list[Any]:
        """Ask a single server: it has one home, so what is asked of each home is asked once."""
        plain = [
            (request[1], SINGLE + request[2], *request[3:]) if request[0] == EACH else request
            for request in requests
        ]
        if plain and plain[0][0] == NAMES:
            assert isinstance(self._client, Client)
            return [await self._client.names()]
        replies = await self._client.several(plain)
        return [
            Gathered([reply]) if request[0] == EACH and not isinstance(reply, Exception) else reply
            for reply, request in zip(replies, requests, strict=True)
        ]

    def _time(self) -> str:
        return "" if self._own_clock is None else str(self._own_clock())

    def _told(self, topic: str, payload: bytes) -> bytes:
        """Hear what the server says with a wake-up; return in which namespaces it happened, one in a line."""
        return payload if topic != "due" else b""

    def _deaf(self) -> None:
        """Know that wake-ups may have been missed."""

    def subscribe(self, topics: Iterable[str], namespace: str = "") -> AbstractAsyncContextManager[Listener]:
        """Listen to topics, as far as one namespace has to do with them; from when this begins, nothing is lost."""
        return self._wakeups.subscribe(topics, namespace)

    # Upkeep.

    async def acquire_leader_lease(self, name: str, holder: str, ttl_ms: int) -> bool:
        """Acquire or extend a leader lease; return False if another holder has it."""
        return bool(await self._function("ff_take_baton", name, holder, str(ttl_ms)))

    async def release_leader_lease(self, name: str, holder: str) -> None:
        """End a leader lease, so that another process can acquire it at once."""
        await self._function("ff_drop_baton", name, holder)

    async def collect(self, limit: int = 1000) -> int:
        """Delete what has expired and is never read again."""
        return int(await self._function("ff_collect", str(limit)))

    async def _function(self, name: str, *arguments: str | bytes) -> Any:
        (reply,) = await self._client.functions([("FCALL", name, 1, SINGLE, self._time(), *arguments)])
        if isinstance(reply, FlowFabricError):
            raise reply
        return reply

    async def repair(self, *, fix: bool = True) -> RepairReport:
        """Compare every index entry with what its record implies, and mend it, while others go on."""
        return await Mender(self._client, self._layout, self._moment, fix=fix).run()

    def _moment(self) -> str:
        """Return the time as functions take it."""
        return self._time()

    def _moment_at(self, now: int) -> str:
        """Write the time of a decision as functions take it."""
        return str(now)

    async def dump(self) -> Dump:
        """Return everything; for proofs and small stores."""
        contents: Dump = await self.carry_out(inspect.dump())
        return contents

    async def close(self) -> None:
        """Let everything go."""
        if self._watch is not None:
            self._watch.cancel()
        self._wakeups.close()
        self._client.close()


def read_answer(call: Call, raw: Any) -> Any:
    """Turn a raw reply into the typed answer, or an error."""
    if isinstance(raw, FlowFabricError):
        return raw
    try:
        return call.read(raw)
    except FlowFabricError as error:
        return error
    except Exception as error:  # noqa: BLE001 - a reply that cannot be read must not fail its neighbours
        return InternalError(f"{call.operation.function}: {error!r}")
