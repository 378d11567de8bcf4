"""Every command that only the holder of a lease may send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from flowfabric.model.command import Fence, HolderCommand
from flowfabric.model.conditions import single
from flowfabric.model.operations.finish import Cancel, Complete, Delay, Fail, WaitChildren
from flowfabric.model.operations.lease import Release, Renew, UpdateProgress
from flowfabric.model.operations.step import PutStep
from flowfabric.model.operations.stream import AppendFrames, FrameInput
from flowfabric.model.operations.suspend import Binding, Suspend
from flowfabric.model.operations.suspend_waitpoint import CreateWaitpoint
from support.clock import START
from support.driver import new_uuid

Build = Callable[..., HolderCommand[Any]]


def _with(kind: type[HolderCommand[Any]], **given: Any) -> Build:
    def build(execution_id: str, fence: Fence, **fields: Any) -> HolderCommand[Any]:
        return kind(**given | {"execution_id": execution_id, "fence": fence} | fields)

    return build


def _suspend(execution_id: str, fence: Fence, **fields: Any) -> HolderCommand[Any]:
    ids = {"suspension_id": new_uuid(), "waitpoints": (Binding(new_uuid(), "k"),)}
    return _with(Suspend, condition=single("k"), **ids)(execution_id, fence, **fields)


def _waitpoint(execution_id: str, fence: Fence, **fields: Any) -> HolderCommand[Any]:
    return _with(CreateWaitpoint, waitpoint_id=new_uuid(), waitpoint_key="k", expires_in_ms=1_000)(
        execution_id, fence, **fields
    )


OVERRIDABLE: Final[dict[str, Build]] = {
    "complete": _with(Complete, result=b"r"),
    "fail": _with(Fail, reason="boom"),
    "delay": _with(Delay, delay_until=START + 10**9),
    "wait_children": _with(WaitChildren),
}
"""An operator may send these without a fence."""
FENCED: Final[dict[str, Build]] = {
    "renew": _with(Renew),
    "release": _with(Release),
    "progress": _with(UpdateProgress, pct=5, message="m"),
    "suspend": _suspend,
    "waitpoint": _waitpoint,
    "step": _with(PutStep, step_name="s", result=b"1"),
}
HOLDER: Final = OVERRIDABLE | FENCED
"""All that answer with the codes of a lost lease."""
EVERY: Final = HOLDER | {"cancel": _with(Cancel, reason="r")}
append: Final = _with(AppendFrames, frames=(FrameInput(b"x"),))
