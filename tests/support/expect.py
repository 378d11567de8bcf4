"""Short ways to say what must happen: a refusal with its code, and a store that stays as it was."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from flowfabric.model.command import Command
from flowfabric.model.errors import FlowFabricError
from support.driver import Driver


@contextmanager
def refused(code: str, *details: str, field: str | None = None) -> Iterator[None]:
    """Expect the refusal with that code, and with those details and that field where they are given."""
    with pytest.raises(FlowFabricError) as caught:
        yield
    assert caught.value.code == code, caught.value
    if details:
        assert caught.value.details == details
    if field is not None:
        assert caught.value.field == field


@asynccontextmanager
async def untouched(ff: Driver, *, heartbeat: bool = False) -> AsyncIterator[None]:
    """Expect that nothing in the store changes, save what a worker's sign of life leaves behind."""
    before = await ff.store.dump()
    yield
    after = await ff.store.dump()
    if heartbeat:
        before.records.pop("worker", None)
        after.records.pop("worker", None)
    assert after == before


async def refuses(
    ff: Driver, command: Command[Any], code: str, *details: str, field: str | None = None
) -> None:
    """Expect that the command is refused with that code and changes nothing."""
    async with untouched(ff):
        with refused(code, *details, field=field):
            await ff.store.apply(command)
