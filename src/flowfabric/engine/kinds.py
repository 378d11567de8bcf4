"""Kinds as the submitting side sees them: looked up by name, from a copy that is at most a second old."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from flowfabric.model.errors import InvalidInput, NotFound
from flowfabric.model.limits import MAX_KINDS_PER_LOOKUP
from flowfabric.model.operations.kind import FindKinds
from flowfabric.model.records import Kind
from flowfabric.storage.base import Commands

MAX_AGE_SECONDS: Final = 1.0
MAX_KEPT: Final = 256

Pair = tuple[str, str]
"""Namespace and name of a kind."""


class KindCache:
    """Finds kinds for submissions; that nobody has published one is remembered, too."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[Pair, tuple[float, Kind | None]] = {}
        self._store: Commands | None = None

    def forget(self) -> None:
        """Look everything up again: a kind was published or deleted through this process."""
        self._kept.clear()

    async def find(self, store: Commands, pairs: Iterable[Pair]) -> dict[Pair, Kind | None]:
        """Return the kind that holds for each pair, without schema and description."""
        if store is not self._store:
            self.forget()
            self._store = store
        now = self._clock()
        found: dict[Pair, Kind | None] = {}
        missing: list[Pair] = []
        for pair in dict.fromkeys(pairs):
            until, kind = self._kept.get(pair, (0.0, None))
            if until > now:
                found[pair] = kind
            elif _is_sound(pair):
                missing.append(pair)
            else:
                found[pair] = None  # what is wrong with the names is said when the command is checked
        for start in range(0, len(missing), MAX_KINDS_PER_LOOKUP):
            part = missing[start : start + MAX_KINDS_PER_LOOKUP]
            try:
                answers = await store.read(FindKinds(wanted=tuple(part)))
            except NotFound:  # a server of an earlier version, which has no kinds
                answers = (None,) * len(part)
            for pair, kind in zip(part, answers, strict=True):
                found[pair] = kind
                self._keep(pair, now + MAX_AGE_SECONDS, kind)
        return found

    def _keep(self, pair: Pair, until: float, kind: Kind | None) -> None:
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        self._kept[pair] = (until, kind)


def _is_sound(pair: Pair) -> bool:
    try:
        FindKinds(wanted=(pair,)).check()
    except InvalidInput:
        return False
    return True
