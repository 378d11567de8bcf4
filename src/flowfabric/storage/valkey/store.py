"""The store on one Valkey server: commands are functions inside it, questions are answered here from its records."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Self, TypeVar, cast

from libvalkey import ReplyError
from msgspec.structs import replace

from flowfabric.model.command import Command, Question
from flowfabric.model.errors import FlowFabricError, InternalError, StoreBusy, Unreachable
from flowfabric.model.ids import Partitions
from flowfabric.model.machine.group import run_group
from flowfabric.model.machine.workspace import Workspace
from flowfabric.model.operations.stream import AppendFrames
from flowfabric.model.records import Summary
from flowfabric.storage.base import Clock, Dump, RepairReport
from flowfabric.storage.store_base import StoreBase
from flowfabric.storage.valkey import inspect
from flowfabric.storage.valkey.boot import prepare
from flowfabric.storage.valkey.client import Client
from flowfabric.storage.valkey.cluster import Cluster
from flowfabric.storage.valkey.faults import of_reply
from flowfabric.storage.valkey.keys import SINGLE, Layout
from flowfabric.storage.valkey.load import Loader
from flowfabric.storage.valkey.mending import Mender
from flowfabric.storage.valkey.operations import Call, call_of
from flowfabric.storage.valkey.operations.streams import Merge, Saved, Summaries, append_call, merged, patches
from flowfabric.storage.valkey.patience import Patience
from flowfabric.storage.valkey.requests import EACH, NAMES, Gathered, Plan, Request
from flowfabric.storage.valkey.swap import DECIDED_HERE, swap
from flowfabric.storage.valkey.wakeups import Wakeups
from flowfabric.storage.valkey.wire import CALL_SECONDS
from flowfabric.storage.wake import Listener

R = TypeVar("R")
CLOCK_SECONDS: Final = 5.0
"""How often the server's clock is looked at; commands are decided by it anyway, reads by what was seen last."""
TRIES: Final = 16
Drawn = tuple[Call, float]
"""A call, and the chance that was drawn for its command."""


class ValkeyStore(StoreBase):
    """Executions in a Valkey server."""

    def __init__(
        self,
        client: Client | Cluster,
        clock: Clock | None,
        partitions: Partitions,
        chance: Callable[[], float],
    ) -> None:
        super().__init__(clock or self._server_time, partitions)
        self._client = client
        self._layout = Layout(partitions.flow, clustered=False)
        self._own_clock = clock
        self._ahead = 0
        self._chance = chance
        self._summaries = Summaries()
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
    ) -> Self:
        """Open `valkey://[user:password@]host[:port][/database]`. Without a clock the server's decides.

        With `wait`, a command is answered only when so many replicas have confirmed what it wrote; if they do not in
        time, the answer is `Unreplicated`: it was done, but a failover may undo it. With `patience`, a server that
        cannot be reached or is loading its data is given so many seconds.
        """
        counts = partitions or Partitions()
        counts.check()
        client = cls._reach(url, timeout, wait)
        try:
            store = cls(client, clock, counts, chance)
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
        if not self._is_one_call(command):
            return await super().apply(command)
        self._check(command)
        answer = await self._ask_function(call_of(command), self._chance())
        if isinstance(answer, FlowFabricError):
            raise answer
        return cast("R", answer)

    async def _decide(self, commands: Sequence[Command[Any]]) -> list[Any]:
        replies: list[Any] = []
        calls: list[Drawn] = []  # of the last commands, which have no replies yet
        for command in commands:
            chance = self._chance()  # one for each, as on every store
            try:
                if self._is_one_call(command):
                    calls.append((call_of(command), chance))
                    continue
                answer = None
            except FlowFabricError as error:
                answer = error
            # What stands before it is decided before it.
            replies += await self._ask_functions(calls)
            calls = []
            try:
                replies.append(answer or await self._decide_apart(command, chance))
            except FlowFabricError as error:  # the others keep their answers
                replies.append(error)
        return replies + await self._ask_functions(calls)

    def _is_one_call(self, command: Command[Any]) -> bool:
        if isinstance(command, AppendFrames):
            return not patches(command)
        return not isinstance(command, Question) and type(command) not in DECIDED_HERE

    async def _decide_apart(self, command: Command[Any], chance: float) -> Any:
        if isinstance(command, AppendFrames):
            async with self._summaries.turn(command):
                return await self._append_and_merge(command, chance)
        if isinstance(command, Question):
            return await self._ask(command)
        return await self._decide_here(command)

    async def _append_and_merge(self, command: AppendFrames, chance: float) -> Any:
        """Merge patches into what is probably stored; when it is not, the server says what is."""
        old = self._summaries.of(command)
        for _ in range(TRIES):
            new = merged(command, old)
            (answer,) = await self._ask_functions([(append_call(command, old, new), chance)])
            if isinstance(answer, Merge):
                old = answer.stored
                continue
            if isinstance(answer, Saved) and isinstance(new, Summary):
                self._summaries.keep(command, replace(new, last_updated_ms=answer.at))
                return answer.answers
            return answer
        return StoreBusy("others change the same summary; try again")

    async def _decide_here(self, command: Command[Any]) -> Any:
        """Decide a rare command by the machine in this process; write if nobody has written in between."""
        for _ in range(TRIES):
            space, answer = await self._run(command)
            arguments = swap(space, self._layout)
            if not arguments or await self._function("ff_swap", *arguments):
                return answer
        return StoreBusy(f"others change the same records as {type(command).__name__}; try again")

    async def _ask_functions(self, calls: Sequence[Drawn]) -> list[Any]:
        if not calls:
            return []
        now = self._time()
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
            _, answer = await self._run(question)
        except Unreachable:  # asking changes nothing, so it is asked once more, on a new connection
            _, answer = await self._run(question)
        return answer

    async def _run(self, command: Command[Any]) -> tuple[Workspace, Any]:
        """Run the machine of this process on what the server holds."""
        space = Workspace(self.now())
        rounds = run_group(space, (command,), (0.0,))
        loader = Loader(space, self._layout)
        try:
            while True:
                await self.carry_out(loader.load(next(rounds)))
        except StopIteration as done:
            return space, done.value[0]

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
        """The time as functions take it."""
        return self._time()

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
