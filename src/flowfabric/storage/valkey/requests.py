"""Plans: work that asks the server in rounds, written without knowing how the asking is done."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, NamedTuple, TypeVar

from flowfabric.model.limits import MAX_INT
from flowfabric.storage.merging import merged, share

T = TypeVar("T")
Row = TypeVar("Row", bound=tuple[Any, ...])

Request = tuple[Any, ...]
"""One command of the server, or one of the three below."""
EACH: Final = "EACH"
"""`(EACH, verb, name, …)`: a command about the key of that name in every home; answered with `Gathered`."""
NAMES: Final = "NAMES"
"""`(NAMES,)`: the names of all keys of ours, on every server."""
PAUSE: Final = "PAUSE"
"""`(PAUSE, seconds)`: let some time pass."""
Plan = Generator[list[Request], list[Any], T]
"""Yields the requests of a round and is sent their replies."""


class Gathered(NamedTuple):
    """What the homes answered; those with nothing to say may be left out."""

    replies: list[Any]
    upto: int = MAX_INT
    """Nothing will be written any more with this number or a smaller one."""


def together(plans: Iterable[Plan[None]]) -> Plan[None]:
    """Run plans side by side: what all of them ask in a round goes out at once."""
    live: list[tuple[Plan[None], list[Request]]] = []
    for plan in plans:
        _start(plan, live)
    while live:
        replies = yield [request for _, requests in live for request in requests]
        going, live, place = live, [], 0
        for plan, requests in going:
            part = replies[place : place + len(requests)]
            place += len(requests)
            try:
                live.append((plan, plan.send(part)))
            except StopIteration:
                continue


def _start(plan: Plan[None], live: list[tuple[Plan[None], list[Request]]]) -> None:
    try:
        live.append((plan, next(plan)))
    except StopIteration:
        return


def walk(
    ask: Callable[[Row | None, int], list[Request]],
    read: Callable[[Any], list[Row]],
    count: int,
    homes: int,
    *,
    descending: bool = False,
) -> Plan[list[Row]]:
    """Read so many rows of an order that is spread over homes; `ask` says how, after a row and for how many."""
    found: list[Row] = []
    asked = share(count, homes)
    while True:
        gathered = yield ask(found[-1] if found else None, asked)
        pages = [read(reply) for each in gathered for reply in each.replies]
        rows, more = merged(pages, asked, descending=descending)
        found += rows
        if not more or len(found) >= count:
            return found[:count]
