"""Repair of a store that others go on using: each thing is looked at, and mended, in one step of the server.

Records are the truth. Three passes compare with them what follows from them, a little at a time:

1. every record: whether it stands in every index in which it belongs (`ff_mend`);
2. every entry of every index: whether it belongs there (`ff_prune`);
3. the tally. Whatever is counted meanwhile, its error stays the same. So executions are counted as they were at one
   moment, which their histories tell, and the difference to the tally of that moment is taken out of it.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from flowfabric.model.errors import FlowFabricError, InternalError
from flowfabric.storage.base import RepairReport
from flowfabric.storage.valkey import keys
from flowfabric.storage.valkey.keys import Layout

CALLS: Final = 64
"""How many calls go out together; then others have the server for as long as these took."""
MEMBERS: Final = 16
"""How many members of an index one call looks at: about a quarter of a millisecond."""
PAGE: Final = 256
TRIES: Final = 3

_RECORD: Final = re.compile(r"ff:(\{fp:[0-9]+\}:[0-9a-f-]{36})")
_INDEX: Final = re.compile(
    r"ff:(?:\{fp:[0-9]+\}:)?(?:(?P<listed>due|(?:state|claim|tag|flow):.*|in:[^\0]*\0(?:state|any|tag|flow):.*)"
    r"|(?P<leases>leases:.*)|(?P<inbox>(?:in:[^\0]*\0)?inbox)|(?P<arrivals>arrivals)|(?P<ids>ids(?::.*)?))",
    re.DOTALL,
)
"""The kinds of indexes that `ff_prune` knows."""


class Reach(Protocol):
    """The way to one server, or to all of a cluster."""

    async def call(self, *arguments: Any) -> Any:
        """Ask one thing about one key."""

    async def functions(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call functions; errors are returned in place."""

    def pages(self) -> AsyncIterator[list[bytes]]:
        """Read the names of all keys of ours, a page at a time."""


class Mender:
    """One repair."""

    def __init__(self, reach: Reach, layout: Layout, time: Callable[[], str], *, fix: bool) -> None:
        self._reach = reach
        self._layout = layout
        self._time = time
        self._fix = fix
        self._checked = 0
        self._wrong: set[str] = set()

    async def run(self) -> RepairReport:
        """Compare everything, and mend it if asked to."""
        async for page in self._reach.pages():
            names = [name.decode() for name in page]
            await self._mend([found[1] for name in names if (found := _RECORD.fullmatch(name))])
            for name in names:
                found = _INDEX.fullmatch(name)
                if found is not None and found.lastgroup is not None:
                    await self._prune(found.lastgroup, name)
        if self._fix or not self._wrong:  # what cannot be found cannot be counted
            await self._recount(self._layout.homes)
        return RepairReport(self._checked, tuple(sorted(self._wrong)), self._fix and bool(self._wrong))

    # Records and entries.

    async def _mend(self, ids: Sequence[str]) -> None:
        calls = [("ff_mend", self._layout.home_of(id_), self._flag, id_) for id_ in ids]
        for id_, reply in zip(ids, await self._ask(calls), strict=True):
            self._checked += 1
            if isinstance(reply, InternalError):
                self._wrong.add(f"{id_}: its record cannot be read: {reply.text}")
                continue
            for key, says, implied in zip(reply[::3], reply[1::3], reply[2::3], strict=True):
                self._wrong.add(
                    f"{id_}: {_shown(key)} says '{_shown(says)}', its record implies '{_shown(implied)}'"
                )

    async def _prune(self, kind: str, name: str) -> None:
        home = self._home(name)
        async for members in self._members(kind, name):
            calls = [("ff_prune", home, self._flag, kind, name, *some) for some in _parts(members, MEMBERS)]
            for reply in await self._ask(calls):
                if isinstance(reply, InternalError):  # told where its record was looked at
                    continue
                for member in reply:
                    self._wrong.add(
                        f"{_shown(member)}: stands in {_shown(name.encode())}, where it does not belong"
                    )

    def _home(self, name: str) -> str:
        return name[: name.index("}:") + 2] if self._layout.clustered else self._layout.common

    async def _members(self, kind: str, name: str) -> AsyncIterator[list[bytes]]:
        if kind == "arrivals":
            after, newest = "-", await self._reach.call("XREVRANGE", name, "+", "-", "COUNT", 1)
            upto = newest[0][0] if newest else "-"  # others may add faster than we go
            while entries := await self._reach.call("XRANGE", name, after, upto, "COUNT", PAGE):
                yield [entry[0] for entry in entries]
                after = f"({entries[-1][0].decode()}"
            return
        cursor = b"0"
        while True:
            verb = "HSCAN" if kind == "leases" else "ZSCAN"
            cursor, flat = await self._reach.call(verb, name, cursor, "COUNT", PAGE)
            yield flat[::2]
            if cursor == b"0":
                return

    # The tally.

    async def _recount(self, homes: Sequence[str]) -> None:
        """Find the errors of tallies. While executions are purged there is nothing to compare with: try again."""
        for _ in range(TRIES):
            begun = await self._ask([("ff_begin_count", home) for home in homes])
            later = []
            for home, reply in zip(homes, begun, strict=True):
                if isinstance(reply, InternalError):
                    raise reply
                position, upto, number = reply[:3]
                tally = _tallied(zip(reply[3::2], reply[4::2], strict=True))
                counted, seen = await self._count(home, position, upto, number)
                if seen == number:
                    await self._correct(home, tally, counted)
                else:
                    later.append(home)
            homes = later
        if self._fix or not self._wrong:
            await self._sum_up()

    async def _sum_up(self) -> None:
        """Compare the totals with the tallies, which are right by now."""
        homes = self._layout.homes
        for home, reply in zip(
            homes, await self._ask([("ff_sum_up", home, self._flag) for home in homes]), strict=True
        ):
            if isinstance(reply, InternalError):
                raise reply
            for namespace in reply:
                self._wrong.add(
                    f"the total of {_shown(namespace) or 'everything'} in {home} is not what the tally implies"
                )

    async def _count(
        self, home: str, position: bytes, upto: bytes, number: int
    ) -> tuple[Counter[bytes], int]:
        counted: Counter[bytes] = Counter()
        seen, last = 0, b"0"
        while seen < number:
            (reply,) = await self._ask([("ff_count", home, position, last, upto, MEMBERS)])
            if isinstance(reply, InternalError) or not reply[1]:
                break
            last = reply[0]
            seen += reply[1]
            for field, n in zip(reply[2::2], reply[3::2], strict=True):
                counted[field] += n
        return counted, seen

    async def _correct(self, home: str, tally: Counter[bytes], counted: Counter[bytes]) -> None:
        errors = {field: tally[field] - counted[field] for field in sorted({*tally, *counted})}
        wrong = {field: error for field, error in errors.items() if error}
        for field in wrong:
            self._wrong.add(
                f"the tally of {_shown(field)} is {tally[field]}, the records imply {counted[field]}"
            )
        if self._fix and wrong:
            changes = [part for field, error in wrong.items() for part in (_from_nowhere(field), -error)]
            await self._ask([("ff_correct_tally", home, *changes)])

    # Asking.

    @property
    def _flag(self) -> str:
        return "1" if self._fix else "0"

    async def _ask(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call functions, and leave the server to others for as long as that took."""
        loop = asyncio.get_running_loop()
        replies: list[Any] = []
        for some in _parts(calls, CALLS):
            begun = loop.time()
            now = self._time()
            sent = [("FCALL", name, 1, home, now, *rest) for name, home, *rest in some]
            for reply in await self._reach.functions(sent):
                if isinstance(reply, FlowFabricError) and not isinstance(reply, InternalError):
                    raise reply
                replies.append(reply)
            await asyncio.sleep(loop.time() - begun)
        return replies


def _parts(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _tallied(moves: Iterable[tuple[bytes, bytes]]) -> Counter[bytes]:
    """Return what a tally says by the names that counting uses."""
    return Counter({"\0".join(of).encode(): n for of, n in keys.tallied(moves).items()})


def _from_nowhere(field: bytes) -> bytes:
    """Return the field of moves that begin with nothing: an error is taken out as if work had come or gone."""
    of, _, state = field.rpartition(b"\0")
    return of + b"\0\0" + state


def _shown(text: bytes) -> str:
    return text.decode("utf-8", "replace").replace("\0", "/")
