"""The findings of `ff doctor`."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct


class Verdict(StrEnum):
    """What a finding asks of the reader: nothing, attention, or a change."""

    OK = "ok"
    NOTE = "note"
    CHANGE = "change"


MAX_SKEW_MS: Final = 1_000
"""The difference between two clocks that needs no attention."""
COLOURS: Final = {Verdict.OK: "green", Verdict.NOTE: "yellow", Verdict.CHANGE: "red"}


class Finding(Struct, frozen=True):
    """The result of one check."""

    name: str
    value: str
    verdict: Verdict = Verdict.OK
    remedy: str = ""


def check(name: str, value: str, *, ok: bool, remedy: str, verdict: Verdict = Verdict.CHANGE) -> Finding:
    """Return a finding that is fine if `ok`, and otherwise has the verdict and the remedy."""
    return Finding(name, value) if ok else Finding(name, value, verdict, remedy)
