"""What `ff doctor` finds: one line for each thing looked at, and what to change where something has to be."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct


class Verdict(StrEnum):
    """How a thing is: good, worth knowing, or to be changed."""

    GOOD = "ok"
    NOTE = "note"
    CHANGE = "change"


COLOURS: Final = {Verdict.GOOD: "green", Verdict.NOTE: "yellow", Verdict.CHANGE: "red"}


class Finding(Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    value: str
    verdict: Verdict = Verdict.GOOD
    remedy: str = ""


def judged(name: str, value: str, *, good: bool, remedy: str, verdict: Verdict = Verdict.CHANGE) -> Finding:
    """Say that a thing is good, or what to change."""
    return Finding(name, value) if good else Finding(name, value, verdict, remedy)
