"""The store on a cluster: every function works in one slot, and what belongs to several is put together here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import astuple, replace

from flowfabric.model.command import Command, Question
from flowfabric.model.errors import FlowFabricError, Infrastructure
from flowfabric.model.ids import Partitions
from flowfabric.model.limits import DEFAULT_DEDUP_MS
from flowfabric.model.operations.access_secret import RotateSecret, SeedSecret
from flowfabric.model.operations.claim import Claim, Claimed
from flowfabric.model.operations.create import Created, CreateExecution, Duplicate
from flowfabric.model.operations.lane import OpenLane, PauseLane, UnpauseLane
from flowfabric.model.operations.worker import HeartbeatWorker, MarkWorkerDead, RegisterWorker
from flowfabric.model.policy import parse_policy
from flowfabric.model.presence import presence_key
from flowfabric.storage.base import Clock
from flowfabric.storage.valkey import lists
from flowfabric.storage.valkey.cluster.claiming import Claimer, ClaimPart
from flowfabric.storage.valkey.cluster.cluster import Cluster, raised
from flowfabric.storage.valkey.cluster.copies import spread
from flowfabric.storage.valkey.cluster.following import Following
from flowfabric.storage.valkey.cluster.hints import Hints, Note
from flowfabric.storage.valkey.connection.client import Client
from flowfabric.storage.valkey.keys import Layout
from flowfabric.storage.valkey.opening.boot import prepare_cluster
from flowfabric.storage.valkey.opening.patience import Patience
from flowfabric.storage.valkey.operations import Call, pack_fields
from flowfabric.storage.valkey.operations.claim import claim_call
from flowfabric.storage.valkey.operations.create import Reserved
from flowfabric.storage.valkey.requests import EACH, NAMES, PAUSE, Gathered, Request
from flowfabric.storage.valkey.store import Turn, ValkeyStore, Way, read_answer

LEAD_MS: Final = 10
"""How far the numbers of a group run ahead of the clock, so that they follow each other on all servers."""
QUARTERS_PER_MS: Final = 4_000
"""Numbers are counted in quarters of microseconds (numbers.lua)."""
SIGNS: Final = 10_000
"""Of how many workers a process remembers when it last said that they live."""
_LANES: Final = (OpenLane, PauseLane, UnpauseLane)
_WORKERS: Final = (RegisterWorker, HeartbeatWorker, MarkWorkerDead)
_SECRETS: Final = (SeedSecret, RotateSecret)
_SPREAD_OUT: Final = (Claim, *_LANES, *_WORKERS, *_SECRETS)
"""Commands that concern more than their own home, or what this process remembers."""
_SPREAD: Final = frozenset({EACH, NAMES, PAUSE})
_LANE: Final = "lane:"
_CONFIRMED: Final = 1
_RESERVED_BEFORE: Final = 2
"""What a key was already when it was to be reserved (cluster.lua)."""

log = logging.getLogger("flowfabric.valkey")


class ClusterStore(ValkeyStore):
    """Executions in a Valkey cluster: `valkey+cluster://[user:password@]host:port[,host:port…]`."""

    def __init__(
        self,
        cluster: Client | Cluster,
        clock: Clock | None,
        partitions: Partitions,
        chance: Callable[[], float],
        *,
        fast_paths: bool = True,
    ) -> None:
        super().__init__(cluster, clock, partitions, chance, fast_paths=fast_paths)
        assert isinstance(cluster, Cluster)
        self._cluster = cluster
        self._layout = Layout(partitions.flow, clustered=True)
        self._number = 0
        """The greatest number that was seen: what is asked from now on gets greater ones, on any server."""
        self._hints = Hints()
        self._following = Following(self._wakeups, self._hints)
        self._signs: dict[tuple[str, str], tuple[Claim, int, int]] = {}
        self._claimer = Claimer(
            cluster,
            self._layout,
            self._hints,
            claim_in=self._claim_in,
            apply=self.apply,
            time=self._time,
            number=lambda: self._number,
        )

    @staticmethod
    def _reach(url: str, timeout: float, wait: int) -> Client | Cluster:
        return Cluster(url, timeout, wait=wait)

    async def _prepare(self, patience: Patience) -> None:
        await prepare_cluster(self._cluster, self._partitions, patience)
        await spread(self._cluster, self._layout)

    async def _server_clock(self) -> list[bytes]:
        time: list[bytes] = await (await self._cluster.nodes())[0].call("TIME")
        return time

    # Calls.

    async def _ask_functions(self, turns: Sequence[Turn]) -> list[Any]:
        placed = [(self._layout.home_for(turn.command), turn.call) for turn in turns if turn.call is not None]
        answers = await self._ask_in(placed, [turn.chance for turn in turns])
        for place, answer in enumerate(answers):
            if isinstance(answer, Reserved):
                answers[place] = await self._decide_apart(turns[place])
        return answers

    async def _ask_function(self, call: Call, chance: float) -> Any:
        (answer,) = await self._ask_functions([Turn(call.command, chance, call)])
        return answer

    async def _ask_in(
        self, placed: Sequence[tuple[str, Call]], chances: Sequence[float] | None = None
    ) -> list[Any]:
        if not placed:
            return []
        now, width, seen = self._time(), self._layout.width, self._number
        if len(placed) > 1:
            seen = max(seen, (self._server_time() + LEAD_MS) * QUARTERS_PER_MS)
        raw = await self._cluster.functions(
            [
                (
                    "FCALL",
                    call.operation.function,
                    1,
                    home,
                    f"{now}/{seen + place * width}/{width}",
                    repr(chances[place] if chances else 0.0),
                    *call.arguments,
                )
                for place, (home, call) in enumerate(placed)
            ]
        )
        return [
            read_answer(call, self._noted(home, reply))
            for (home, call), reply in zip(placed, raw, strict=True)
        ]

    def _noted(self, home: str, reply: Any) -> Any:
        if not isinstance(reply, list) or reply[0] not in {2, 3}:
            return reply
        number, *heads = reply[1]
        for lane, route, score, execution_id in heads:
            self._note(home, int(number), lane.decode(), route, score, execution_id)
        self._number = max(self._number, int(number))
        return [reply[0] - 2, *reply[2:]]

    def _note(
        self, home: str, number: int, lane: str, route: bytes, score: bytes, execution_id: bytes
    ) -> None:
        head = (int(float(score)), execution_id.decode()) if execution_id else None
        self._hints.note(Note(home, number, lane, route.decode(), head))

    def _told(self, topic: str, payload: bytes) -> bytes:
        """Hear how a queue of another process's doing begins; without details, forget what was known."""
        if not topic.startswith(_LANE):
            return super()._told(topic, payload)
        lane = topic.removeprefix(_LANE)
        if not payload:
            self._hints.forget(lane)
            return b""
        home, number, route, score, execution_id, namespaces = msgspec.msgpack.decode(payload)
        self._number = max(self._number, int(number))
        self._note(home, int(number), lane, route.encode(), score.encode(), execution_id.encode())
        return bytes(namespaces.encode())

    def _deaf(self) -> None:
        self._hints.forget()

    async def _answers(self, requests: Sequence[Request]) -> list[Any]:
        """Ask for everything side by side, single keys of all requests together."""
        single: list[Request] = []
        for request in requests:
            if request[0] == "MGET":
                single += [("GET", key) for key in request[1:]]
            elif request[0] not in _SPREAD:
                single.append(request)
        spread_out = [request for request in requests if request[0] in _SPREAD]
        values, *found = await asyncio.gather(
            self._cluster.several(single), *(self._answer(request) for request in spread_out)
        )
        plain, gathered = iter(values), iter(found)
        return [
            next(gathered)
            if request[0] in _SPREAD
            else _whole([next(plain) for _ in request[1:]])
            if request[0] == "MGET"
            else next(plain)
            for request in requests
        ]

    async def _answer(self, request: Request) -> Any:
        verb = request[0]
        if verb == EACH:
            return await self._gather(request)
        if verb == PAUSE:
            return await asyncio.sleep(request[1])
        found = [await node.names() for node in await self._cluster.nodes()]
        return [name for names in found for name in names]

    async def _gather(self, request: Request) -> Gathered:
        _, verb, name, *rest = request
        head = (self._layout.width, verb, name, len(rest), *rest)
        answers = raised(
            await self._cluster.per_server(
                self._layout.homes, lambda homes: ("FCALL_RO", "ff_each", 1, homes[0], *head, *homes)
            )
        )
        replies = [reply for answer in answers for reply in answer[1:]]
        return Gathered(replies, min(int(answer[0]) for answer in answers))

    async def _function(self, name: str, *arguments: str | bytes) -> Any:
        (reply,) = raised(
            await self._cluster.functions([("FCALL", name, 1, self._layout.common, self._time(), *arguments)])
        )
        return reply

    def _moment(self) -> str:
        return f"{self._time()}/{self._number}/{self._layout.width}"

    def _moment_at(self, now: int) -> str:
        return f"{now}/{self._number}/{self._layout.width}"

    # Commands that belong to more than one slot.

    def _fast_call(self, command: Command[Any]) -> Call | None:
        return (
            None
            if isinstance(command, Claim) or self._has_foreign_key(command)
            else super()._fast_call(command)
        )

    def _has_foreign_key(self, command: Command[Any]) -> bool:
        """Whether an execution is created under a key that lives in another partition."""
        if not isinstance(command, CreateExecution) or not command.idempotency_key:
            return False
        key_home = self._layout.home_of_key(command.namespace, command.idempotency_key)
        return key_home != self._layout.home_of(command.execution_id)

    def _way(self, turn: Turn) -> Way:
        keyed = isinstance(turn.command, CreateExecution) and bool(turn.command.idempotency_key)
        if turn.call is None and (keyed or isinstance(turn.command, _SPREAD_OUT)):
            return Way.APART
        return super()._way(turn)

    async def _decide_apart(self, turn: Turn) -> Any:
        command = turn.command
        try:
            if isinstance(command, Claim):
                return await self._claim(command)
            if isinstance(command, CreateExecution):
                return await self._create_reserved(command, turn.chance)
            if isinstance(command, _LANES):
                return await self._in_all_homes(turn)
            if not isinstance(command, Question):
                (answer,) = await self._commit(self._layout.common, [turn])
                self._signs.clear()
                if isinstance(command, _SECRETS):
                    await spread(self._cluster, self._layout)
                return answer
        except FlowFabricError as error:
            return error
        return await super()._decide_apart(turn)

    async def _claim(self, command: Claim) -> Claimed:
        await self._following.follow(command.lanes)
        claimed, _ = await asyncio.gather(self._claimer.claim(command), self._give_sign(command))
        return claimed

    async def _claim_in(self, parts: Sequence[ClaimPart]) -> list[Any]:
        """Do parts of claims, each in its home; errors are returned in place."""
        if self._fast_paths:
            return await self._ask_in([(part.home, claim_call(part.command, part.sight)) for part in parts])
        answers = await asyncio.gather(
            *(self._commit(part.home, [Turn(part.command, 0.0)], part.sight) for part in parts)
        )
        return [answer for (answer,) in answers]

    async def _give_sign(self, command: Claim) -> None:
        """Note that a worker lives, unless that was done lately; what was claimed counts even if that fails."""
        who = presence_key(command)
        last, since, until = self._signs.get(who, (None, 0, 0))
        now = self.now()
        same = last is not None and _takes(last) == _takes(command)
        if same and since <= now < until:
            return
        fields = pack_fields(astuple(command))
        sign = ("FCALL", "ff_seen", 1, self._layout.common, self._moment(), "0", fields)
        (reply,) = await self._cluster.functions([sign])
        if isinstance(reply, FlowFabricError):
            log.info("the store was not told that worker %s lives: %s", command.worker_instance_id, reply)
            return
        if len(self._signs) >= SIGNS:
            self._signs.clear()
        self._signs[who] = (command, int(reply[2]), int(reply[3]))

    async def _in_all_homes(self, turn: Turn) -> Any:
        """Decide about a lane, then write it into every partition, where claims look."""
        (answer,) = await self._commit(self._layout.common, [turn])
        if not isinstance(answer, FlowFabricError):
            copies = await asyncio.gather(*(self._commit(home, [turn]) for home in self._layout.homes))
            raised([copy for (copy,) in copies])
            self._hints.forget(turn.command.lane_id)  # type: ignore[attr-defined]
        return answer

    async def _create_reserved(self, command: CreateExecution, chance: float) -> Any:
        """Create under a key that may live in another partition than the id: reserve it there first."""
        home = self._layout.home_of_key(command.namespace, command.idempotency_key)
        wanted, window = "", 0  # with a policy that will be refused, only whether it is a duplicate is asked
        with contextlib.suppress(FlowFabricError):
            window = parse_policy(command.policy).dedup_window_ms or DEFAULT_DEDUP_MS
            wanted = command.execution_id

        async def reserve(execution_id: str, step: str) -> tuple[str, int]:
            key = (command.namespace, command.idempotency_key, execution_id, str(window), step)
            call = ("FCALL", "ff_reserve", 1, home, self._moment(), *key)
            (reply,) = raised(await self._cluster.functions([call]))
            return reply[0].decode(), reply[1]

        execution_id, found = await reserve(wanted, "0")
        if found == _CONFIRMED:
            runs = await self.carry_out(lists.executions([execution_id]))
            return Duplicate(execution_id, runs[0].public_state if runs else "")
        here = replace(command, execution_id=execution_id or command.execution_id, idempotency_key="")
        (answer,) = await self._decide_here(Turn(here, chance, self._fast_call(here)))
        if isinstance(answer, Created) or (isinstance(answer, Duplicate) and found == _RESERVED_BEFORE):
            await reserve(execution_id, "1")
        elif execution_id and not isinstance(answer, Infrastructure):
            await reserve(execution_id, "-")  # refused, or the id stood for something else already
        return answer

    async def _decide_here(self, turn: Turn) -> list[Any]:
        """Decide a command that concerns its own home alone."""
        if turn.call is not None:
            return await self._ask_functions([turn])
        return await self._commit(self._layout.home_for(turn.command), [turn])

    # Upkeep.

    async def collect(self, limit: int = 1000) -> int:
        """Delete what has expired and is never read again; and mend what a crash left different in the partitions."""
        await spread(self._cluster, self._layout)
        homes = (*self._layout.homes, self._layout.common)
        time = self._time()
        answers = await self._cluster.functions(
            [("FCALL", "ff_collect", 1, home, time, str(limit)) for home in homes]
        )
        return sum(int(answer) for answer in raised(answers))

    async def close(self) -> None:
        """Let everything go."""
        await self._following.close()
        await super().close()


def _whole(values: list[Any]) -> Any:
    """Return values, or the first error among them."""
    return next((value for value in values if isinstance(value, Exception)), values)


def _takes(claim: Claim) -> tuple[object, ...]:
    return claim.lanes, claim.capabilities, claim.kinds
