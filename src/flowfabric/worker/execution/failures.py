"""Turning the exceptions of handlers into failures that the store records."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Collection
from types import TracebackType
from typing import Final, TypeVar, overload

import msgspec
from msgspec import Struct

from flowfabric.codecs import EncodeFault
from flowfabric.model.limits import MAX_DETAIL_BYTES, MAX_TEXT_BYTES
from flowfabric.model.operations.finish import Fail
from flowfabric.model.operations.lease import Release
from flowfabric.worker.claimed_task import ClaimedTask
from flowfabric.worker.faults import (
    RETRY,
    HandlerSuspended,
    Interrupted,
    InvalidArguments,
    Permanent,
    ProcessCrashed,
    RemoteError,
    Retry,
    StepMismatch,
    StepResultMismatch,
    StepTimeout,
    Stopping,
    names_of,
)

log = logging.getLogger("flowfabric.worker")

E = TypeVar("E", bound=BaseException)
ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None]

_CATEGORIES: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (InvalidArguments, "invalid_input"),
    (Permanent, "permanent"),
    (Retry, RETRY),
    (StepMismatch, "step_mismatch"),
    (StepResultMismatch, "step_mismatch"),
    (ProcessCrashed, "infra_crash"),
    (EncodeFault, "invalid_result"),
)
HANDLER: Final = "handler_error"
TIMEOUT: Final = "timeout"
_PLAIN: Final = (InvalidArguments, Permanent, Retry, StepMismatch, StepResultMismatch, ProcessCrashed)
"""Exceptions whose message is the whole reason, without their class name."""


def ending(task: ClaimedTask, error: BaseException) -> Fail | Release | None:
    """Return the command that ends the task of a handler that raised; None if the task is no longer held."""
    if inside(error, HandlerSuspended) or task.consumed:
        return None
    if (stop := inside(error, Interrupted)) is not None:
        log.info("%s of %s was interrupted: %s", task.execution_kind, task.execution_id, stop)
        if not isinstance(stop, Stopping):
            return None
        return Release(execution_id=task.execution_id, fence=task.task.fence, reason=str(stop))
    return failure(task, error)


def inside(error: BaseException | None, kind: type[E]) -> E | None:
    """Return the exception of a class, or the first one in a group; None if there is none."""
    if error is None:
        return None
    return next((part for part in _parts(error) if isinstance(part, kind)), None)


def failure(task: ClaimedTask, error: BaseException) -> Fail:
    """Return the failure of a handler: reason, category and traceback."""
    retry = inside(error, Retry)
    return Fail(
        execution_id=task.execution_id,
        fence=task.task.fence,
        reason=_cut(reason_of(error), MAX_TEXT_BYTES),
        category=category_of(error, _retried(task.task.policy)),
        detail="" if isinstance(error, InvalidArguments) else _end(detail_of(error), MAX_DETAIL_BYTES),
        retry_after_ms=retry.after_ms if retry is not None else None,
    )


def refusal(task: ClaimedTask, error: Exception) -> Fail:
    """Return the failure of a handler whose result the store refuses."""
    return Fail(
        execution_id=task.execution_id,
        fence=task.task.fence,
        reason=f"the result is refused: {error}",
        category="invalid_result",
    )


def category_of(error: BaseException, retried: Collection[str] = ()) -> str:
    """Return the category of a failure, which the retry policy checks: the exception's name if that is in `retried`.

    An exception group is retried if all of its exceptions are. A `Retry` or `Permanent` in the group decides for all.
    """
    for kind, name in _CATEGORIES:
        if inside(error, kind) is not None:
            return name
    named = [_named(part, retried) for part in _parts(error)]
    if all(named):
        return named[0]
    return TIMEOUT if inside(error, StepTimeout) is not None else HANDLER


def _parts(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [inner for part in error.exceptions for inner in _parts(part)]
    return [error]


def _named(error: BaseException, retried: Collection[str]) -> str:
    """Return the name under which a policy retries this exception or a base class of it; empty if it does not."""
    kinds = type(error).__mro__ if retried else ()
    return next((name for kind in kinds for name in names_of(kind) if name in retried), "")


class _RetryPolicy(Struct, frozen=True):
    retryable_categories: tuple[str, ...] = ()


class _Policy(Struct, frozen=True):
    retry_policy: _RetryPolicy = _RetryPolicy()


def _retried(policy: bytes) -> tuple[str, ...]:
    return msgspec.json.decode(policy, type=_Policy).retry_policy.retryable_categories if policy else ()


def reason_of(error: BaseException) -> str:
    """Return the reason of a failure in one line."""
    text = str(error)
    if isinstance(error, _PLAIN):
        return text
    if isinstance(error, BaseExceptionGroup):
        text = f"{error.message}: {'; '.join(map(reason_of, _parts(error)))}"
    name = type(error).__qualname__
    return f"{name}: {text}" if text else name


def detail_of(error: BaseException) -> str:
    """Return the traceback where the handler ran, without the frames of the worker."""
    if isinstance(error.__cause__, RemoteError):
        return str(error.__cause__)
    return "".join(traceback.format_exception(*traceback_of(error)))


@overload
def traceback_of(error: BaseException) -> ExceptionInfo: ...
@overload
def traceback_of(error: BaseException | None) -> ExceptionInfo | None: ...


def traceback_of(error: BaseException | None) -> ExceptionInfo | None:
    """Return the exception info for loggers, without the frames of the worker."""
    if error is None:
        return None
    frames = error.__traceback__
    while frames is not None and "flowfabric/worker/" in frames.tb_frame.f_code.co_filename.replace(
        "\\", "/"
    ):
        frames = frames.tb_next
    return type(error), error, frames or error.__traceback__


def _cut(text: str, most: int) -> str:
    data = text.encode("utf-8", "replace")
    return text if len(data) <= most else data[: most - 3].decode("utf-8", "ignore") + "…"


def _end(text: str, most: int) -> str:
    """Return the end of a text, the most useful part of a traceback."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= most else "…" + data[len(data) - most + 3 :].decode("utf-8", "ignore")
