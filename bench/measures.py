"""Small statistics, and the processor time of a process."""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

N = TypeVar("N", int, float)


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return quantile(sorted(values), 0.5)


def quantile(ordered: Sequence[N], share: float) -> N:
    """Return the value below which that share of the sorted values lies."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def client_cpu_seconds() -> float:
    """Return the processor time of this process so far, all its threads together."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def process_cpu_seconds(pid: int) -> float:
    """Return the processor time of another process so far, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
