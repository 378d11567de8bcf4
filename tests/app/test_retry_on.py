"""Which failures are tried again: by kind of exception, or by category."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowfabric import Context, FlowFabric, Permanent, Retry, TaskFailed
from flowfabric.model.errors import InvalidInput
from support.face import Face


class Busy(Exception):
    """A kind of exception of a program."""


class Namesake(Exception):
    """Has the name of a builtin, and is none."""


Namesake.__qualname__ = "ConnectionError"
BUSY = f"{__name__}.Busy"


@pytest.mark.parametrize(
    ("retry_on", "error", "attempts", "category"),
    [
        (None, Busy(), 2, "handler_error"),
        (Busy, Busy(), 2, BUSY),
        ([BUSY], Busy(), 2, BUSY),
        (["Busy"], Busy(), 2, "Busy"),
        ((ConnectionError, Busy), ConnectionResetError(), 2, "ConnectionError"),
        ([ConnectionError], Namesake(), 1, "handler_error"),
        ([ConnectionError], ValueError(), 1, "handler_error"),
        ([ConnectionError], Retry(after=0), 2, "retry"),
        ([Exception], Permanent(), 1, "permanent"),
        ("timeout", ValueError(), 1, "handler_error"),
        (["handler_error"], ValueError(), 2, "handler_error"),
        ((), ValueError(), 1, "handler_error"),
        ((), Retry(after=0), 2, "retry"),
        (["transient"], ValueError(), 2, "handler_error"),
        (Busy, ExceptionGroup("", [Busy(), ExceptionGroup("", [Busy()])]), 2, BUSY),
        (Busy, ExceptionGroup("", [Busy(), ValueError()]), 1, "handler_error"),
        (None, ExceptionGroup("", [Busy(), Permanent("no")]), 1, "permanent"),
        (Busy, ExceptionGroup("", [ValueError(), Retry(after=0)]), 2, "retry"),
    ],
)
async def test_kinds_of_failures(
    face: Face, retry_on: Any, error: Exception, attempts: int, category: str
) -> None:
    app = face.app()
    ran: list[int] = []

    @app.task(retries=1, backoff=0, retry_on=retry_on)
    async def work(ctx: Context) -> None:
        ran.append(ctx.attempt)
        raise error

    async with app.worker():
        with pytest.raises(TaskFailed) as failed:
            await (await app.submit(work)).result(timeout="30s")
    assert (failed.value.category, ran) == (category, list(range(attempts)))


def test_names_in_a_policy() -> None:
    """A class of the main module is another one elsewhere, so it has no module there."""
    app = FlowFabric()
    main = type("Main", (Exception,), {"__module__": "__main__"})
    app.task(name="a", retries=1, retry_on=(main, Busy, OSError, "my own"))(lambda: None)
    policy = json.loads(app._core.registry.by_kind["a"].policy)
    assert policy["retry_policy"]["retryable_categories"] == ["Main", BUSY, "OSError", "my own", "retry"]


@pytest.mark.parametrize("wrong", [[3], [int], int])
def test_what_is_no_exception_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"retry_on: .* is neither a kind of exception nor the name"):
        FlowFabric().task(name="a", retries=1, retry_on=wrong)(lambda: None)
