"""The way to a cluster: each call goes to the server that holds its slot, all calls of a round side by side.

A call is sent again only where a server said that it did nothing. While a slot is moved key by key, no function runs in
it: part of what the function must see would be elsewhere. Functions name their home as their key, which never exists,
so the server itself turns them away for as long as that lasts, and they wait.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from valkey.asyncio.connection import ConnectionPool

from flowfabric.model.errors import FlowFabricError, StoreBusy, StoreClosed
from flowfabric.storage.resolve import without_password
from flowfabric.storage.valkey.cluster.topology import Slots, beside, servers_of
from flowfabric.storage.valkey.connection.client import Arguments, Client
from flowfabric.storage.valkey.connection.faults import NotAsked, Redirected
from flowfabric.storage.valkey.connection.wire import CALL_SECONDS
from flowfabric.storage.valkey.opening.servers import check_server

PATIENCE_SECONDS: Final = 5.0
"""How long calls wait for a slot that nobody serves, or that is on its way."""
PAUSE_SECONDS: Final = 0.02
LOOK_SECONDS: Final = 0.5
"""How long all servers together may take to say who holds what, if at least one has said it."""
ELSEWHERE: Final = "non local key"
"""What a server says when a function that looks into many slots meets one that it does not hold."""
FUNCTIONS: Final = frozenset({"FCALL", "FCALL_RO"})
Answer = Any
"""A reply, or an error in its place."""


class Cluster:
    """Knows the servers of a cluster and where each slot lies."""

    def __init__(self, url: str, timeout: float = CALL_SECONDS, *, wait: int = 0) -> None:
        self._seeds = servers_of(url)
        self._timeout = timeout
        self._wait = wait
        self.left: list[Callable[[], None]] = []
        self._nodes: dict[str, Client] = {}
        self._slots: Slots | None = None
        self._looking: asyncio.Task[Slots] | None = None
        self._turn = 0
        self._closed = False
        self.where = without_password(url)

    # The map.

    async def slots(self, *, anew: bool = False) -> Slots:
        """Return who holds what; several who ask at once share one look."""
        if self._slots is not None and not anew:
            return self._slots
        if self._closed:
            raise StoreClosed
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return await asyncio.shield(self._looking)

    async def _look(self) -> Slots:
        """Ask the servers that are known; if none of them answers, those that were named."""
        known = self._primaries()
        named = [Client(url, self._timeout) for url in self._seeds]
        try:
            faults: list[FlowFabricError] = []
            views = await self._views(known, faults) or await self._views(named, faults)
        finally:
            for node in named:
                node.close()
        if not views:
            raise next((fault for fault in faults if not isinstance(fault, NotAsked)), faults[-1])
        self._slots = slots = max(views, key=lambda view: view.epoch)
        for address in set(self._nodes) - set(slots.primaries):
            self._nodes[address].leave()
        return slots

    def _primaries(self) -> list[Client]:
        """Return the ways to servers that hold slots, as far as there are any already."""
        held = self._slots.primaries if self._slots is not None else ()
        return [self._nodes[address] for address in held if address in self._nodes]

    async def _views(self, nodes: Sequence[Client], faults: list[FlowFabricError]) -> list[Slots]:
        """Ask servers what they see. One that is slow is not waited for; one that is cut off may be out of date."""
        if not nodes:
            return []
        asked = [asyncio.create_task(self._view(node)) for node in nodes]
        done, late = await asyncio.wait(asked, timeout=LOOK_SECONDS)
        if not done:
            done, late = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        for task in late:
            task.cancel()
        found = [task.result() for task in done]
        faults += [view for view in found if isinstance(view, FlowFabricError)]
        return [view for view in found if isinstance(view, Slots)]

    @staticmethod
    async def _view(node: Client) -> Slots | FlowFabricError:
        about, rows = await node.questions([("CLUSTER", "INFO"), ("CLUSTER", "SLOTS")])
        if not isinstance(rows, FlowFabricError) and not isinstance(about, FlowFabricError):
            return Slots(rows, node.host, about)
        try:
            await check_server(node, clustered=True)  # it says more about what is wrong
        except FlowFabricError as error:
            return error
        fault: FlowFabricError = rows if isinstance(rows, FlowFabricError) else about
        return fault

    def node(self, address: str) -> Client:
        """Return the way to one server."""
        if self._closed:
            raise StoreClosed
        known = self._nodes.get(address)
        if known is None:
            known = self._nodes[address] = Client(
                beside(self._seeds[0], address), self._timeout, wait=self._wait
            )
        return known

    async def nodes(self) -> list[Client]:
        """Return the ways to all servers that hold slots."""
        return [self.node(address) for address in (await self.slots()).primaries]

    async def pages(self) -> AsyncIterator[list[bytes]]:
        """Read the names of all keys of ours, a page at a time; a name may come twice."""
        for node in await self.nodes():
            async for page in node.pages():
                yield page

    @property
    def pool(self) -> ConnectionPool:
        """Connections to one server after the other: any of them hears what is published anywhere."""
        self._turn += 1
        known = self._primaries()
        if known:
            return known[self._turn % len(known)].pool
        return Client(self._seeds[self._turn % len(self._seeds)], self._timeout).pool

    @property
    def writes(self) -> int:
        """How many times something was written to the present connections."""
        return sum(node.writes for node in self._nodes.values())

    # Calls.

    async def call(self, *arguments: Any) -> Any:
        """Ask one thing; raise the error that the server answers."""
        (answer,) = await self.several([arguments])
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def several(self, requests: Sequence[Arguments]) -> list[Answer]:
        """Read single keys."""
        return await self._send([(request[1], request) for request in requests])

    async def questions_in(self, home: str, requests: Sequence[Arguments]) -> list[Answer]:
        """Ask the server that holds a home about it, in one write; every error is returned in place."""
        return await self._send([(home, request) for request in requests])

    async def function(self, call: Arguments) -> Any:
        """Call one function; an error is returned."""
        (reply,) = await self.functions([call])
        return reply

    async def functions(self, calls: Sequence[Arguments]) -> list[Answer]:
        """Call functions: `FCALL name 1 home …`."""
        return await self._send([(call[3], call) for call in calls])

    async def per_server(
        self, homes: Sequence[str], build: Callable[[Sequence[str]], Arguments]
    ) -> list[Answer]:
        """Call a function once for each server, about all homes that it holds."""
        shared = (await self.slots()).shared_out(homes)
        answers = await self.functions([build(found) for found in shared.values()])
        if any(isinstance(answer, FlowFabricError) and ELSEWHERE in answer.text for answer in answers):
            # Something is on its way: asked one by one, each home is found where it is.
            await self.slots(anew=True)
            answers = await self.functions([build([home]) for home in homes])
        return answers

    async def _send(self, keyed: Sequence[tuple[str | bytes, Arguments]]) -> list[Answer]:
        answers: list[Answer] = [None] * len(keyed)
        left = list(range(len(keyed)))
        if not left:
            return answers
        slots = await self.slots()
        end = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while True:
            groups: dict[str, list[int]] = defaultdict(list)
            for place in left:
                groups[slots.of(keyed[place][0])].append(place)
            sent = [
                self._send_to(address, [keyed[place][1] for place in places])
                for address, places in groups.items()
            ]
            found = [await sent[0]] if len(sent) == 1 else await asyncio.gather(*sent)
            left = []
            for places, replies in zip(groups.values(), found, strict=True):
                for place, reply in zip(places, replies, strict=True):
                    answers[place] = reply
                    if isinstance(reply, NotAsked):
                        left.append(place)
            if not left:
                return answers
            if asyncio.get_running_loop().time() > end:
                return [self._given_up(answer) for answer in answers]
            before, slots = slots, await self._map_again(slots)
            if any(slots.of(keyed[place][0]) == before.of(keyed[place][0]) for place in left):
                await asyncio.sleep(PAUSE_SECONDS)

    async def _map_again(self, known: Slots) -> Slots:
        try:
            return await self.slots(anew=True)
        except FlowFabricError:  # nobody answers just now
            return known

    def _given_up(self, answer: Answer) -> Answer:
        if isinstance(answer, Redirected):
            return StoreBusy(f"{answer.text}; the slot is on its way to another server, try again")
        return answer

    async def _send_to(self, address: str, requests: Sequence[Arguments]) -> list[Answer]:
        if not address:
            return [NotAsked("no server of the cluster holds this slot")] * len(requests)
        node = self.node(address)
        of_functions = requests[0][0] in FUNCTIONS
        answers = await (node.functions if of_functions else node.questions)(requests)
        for place, answer in enumerate(answers):
            if isinstance(answer, Redirected) and answer.word == "ASK" and not of_functions:
                answers[place] = await self._ask_there(answer.address, requests[place])
        return answers

    async def _ask_there(self, address: str, request: Arguments) -> Answer:
        """Read where a key is on its way to."""
        _, answer = await self.node(address).questions([("ASKING",), request])
        return answer

    def close(self) -> None:
        """Let all connections go."""
        self._closed = True
        for node in self._nodes.values():
            node.close()


def raised(answers: Sequence[Answer]) -> list[Answer]:
    """Return the answers, or raise the first error among them."""
    for answer in answers:
        if isinstance(answer, FlowFabricError):
            raise answer
    return list(answers)
