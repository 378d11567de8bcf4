"""Plans: work that asks the server in rounds, written without knowing how the asking is done."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, TypeVar

T = TypeVar("T")

Request = tuple[Any, ...]
"""One command of the server."""
Plan = Generator[list[Request], list[Any], T]
"""Yields the requests of a round and is sent their replies."""


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
