"""Sending a signal to a run: find the waitpoint that takes it, and authenticate."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from flowfabric.app.errors import NothingWaits
from flowfabric.codecs import Codec, encode_value
from flowfabric.engine import every_waitpoint
from flowfabric.model.operations.read import GetExecution
from flowfabric.model.operations.signal import ApproveSignal, DeliverSignal
from flowfabric.model.operations.suspend_waitpoint import WaitpointView
from flowfabric.model.records import Execution
from flowfabric.model.state import TERMINAL_STATES
from flowfabric.storage.base import Commands
from flowfabric.storage.minting import new_uuid
from flowfabric.worker.steps.journal import SLEEPING

LOOK_SECONDS: Final = 5.0


async def send_signal(
    store: Commands,
    execution_id: str,
    name: str,
    payload: Any,
    *,
    waitpoint: str,
    token: str,
    by: str,
    key: str,
    within: float,
    codec: Codec,
) -> None:
    """Deliver a signal with the token of its waitpoint, or without one as an operator."""
    data, encoding = (b"", "") if payload is None else encode_value(payload, codec)
    to = waitpoint or await _waitpoint(store, execution_id, name, within)
    signal_id = new_uuid()
    if token:
        await store.apply(
            DeliverSignal(
                execution_id=execution_id,
                waitpoint_id=to,
                signal_id=signal_id,
                signal_name=name,
                payload=data,
                payload_encoding=encoding,
                waitpoint_token=token,
                source_identity=by,
                idempotency_key=key or signal_id,
            )
        )
        return
    # Without a distinct suffix the second of two approvals would be ignored as a repeat of the first.
    await store.apply(
        ApproveSignal(
            execution_id=execution_id,
            waitpoint_id=to,
            signal_id=signal_id,
            signal_name=name,
            payload=data,
            payload_encoding=encoding,
            source_identity=by,
            key_suffix=key or signal_id,
        )
    )


async def _waitpoint(store: Commands, execution_id: str, name: str, within: float) -> str:
    """Return the id of the only open waitpoint that takes the signal; wait up to `within` seconds for one."""
    clock = asyncio.get_running_loop().time
    end = clock() + within
    async with store.subscribe([f"execution:{execution_id}"]) as woken:
        while True:
            waitpoints = await every_waitpoint(store, execution_id)
            takers = _takers(waitpoints, name)
            if len(takers) == 1:
                return takers[0].waitpoint_id
            if takers:
                found = ", ".join(f"{each.waitpoint_id} ({each.waitpoint_key})" for each in takers)
                raise NothingWaits(f"several waitpoints take {name!r}; say waitpoint=…: {found}")
            left = end - clock()
            run = await store.read(GetExecution(execution_id=execution_id))
            if left <= 0 or run.public_state in TERMINAL_STATES:
                raise _refusal(run, name, waitpoints)
            await woken.wait(min(left, LOOK_SECONDS))


def _takers(waitpoints: tuple[WaitpointView, ...], name: str) -> list[WaitpointView]:
    """Return the waitpoints that require the name, or else those that take any name."""
    named = [each for each in waitpoints if name in each.required_signal_names]
    return named or [
        each for each in waitpoints if not each.required_signal_names and each.reason_code != SLEEPING
    ]


def _refusal(run: Execution, name: str, waitpoints: tuple[WaitpointView, ...]) -> NothingWaits:
    awaited = sorted({each for waitpoint in waitpoints for each in waitpoint.required_signal_names})
    if awaited:
        return NothingWaits(f"the run waits for {', '.join(awaited)}, not for {name!r}")
    if run.public_state in TERMINAL_STATES:
        return NothingWaits(f"the run has ended: {run.public_state}")
    if any(each.reason_code == SLEEPING for each in waitpoints):
        return NothingWaits("the run sleeps, and waits for no signal yet; say within=… to wait for it")
    return NothingWaits(
        f"the run is {run.public_state} and waits for nothing yet; say within=… to wait for it"
    )
