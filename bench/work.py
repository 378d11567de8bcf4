"""Commands and the event loop that all scenarios share."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from flowfabric.model import ids
from flowfabric.model.operations.claim import Claim
from flowfabric.model.operations.create import CreateExecution
from flowfabric.storage.base import Commands
from flowfabric.storage.minting import new_uuid

R = TypeVar("R")
LANE = "bench"


def run_loop(work: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine on uvloop if it is installed, as the server does."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


def creation(store: Commands, body: bytes, **fields: Any) -> CreateExecution:
    return CreateExecution(
        execution_id=ids.spread(new_uuid(), store.partitions),
        execution_kind="bench",
        lane_id=LANE,
        input_payload=body,
        payload_encoding="json",
        **fields,
    )


def claim_of(worker: str, max_tasks: int = 1, **fields: Any) -> Claim:
    return Claim(
        worker_id="bench",
        worker_instance_id=worker,
        lanes=(LANE,),
        mint=new_uuid(),
        max_tasks=max_tasks,
        **fields,
    )
