"""Planned crashes of workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

Moment = Literal["before", "during", "after"]


@dataclass
class Crash:
    """A planned crash of a worker at a moment of a step, in any run or in one.

    As a context manager it raises if the crash has not happened by the end of the block:
    `with lab.crash_after("draft"): …`.
    """

    moment: Moment
    step: str
    execution_id: str
    happened: bool = False

    def __str__(self) -> str:
        return f"crash_{self.moment}({self.step!r})"

    def fits(self, moment: Moment, execution_id: str, step: str) -> bool:
        """Return True if this crash is due now."""
        if self.happened or self.moment != moment or self.step != step:
            return False
        return self.execution_id in {"", execution_id}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and not self.happened:
            raise AssertionError(
                f"{self} has not happened in its block: submit and settle inside it, and name the step as the "
                "handler does"
            )
