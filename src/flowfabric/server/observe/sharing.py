"""What processes on one port share to tell what all of them do: a folder, in which each keeps its counts in files.

Whoever is asked adds them all up. A process that takes the place of a dead one goes on with its files, so that no count
ever falls.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which prometheus_client knows the folder."""

PLACE: Final = "FLOWFABRIC_PLACE"
"""The variable that holds the place of this process among the others."""


def make_folder() -> str:
    """Make a folder that only we can read."""
    return tempfile.mkdtemp(prefix="flowfabric-metrics-")


def remove_folder(folder: str) -> None:
    """Remove it with what is in it."""
    shutil.rmtree(folder, ignore_errors=True)


def join(folder: str, place: int) -> None:
    """Count in this folder from now on, under a place that no other living process has."""
    os.environ[FOLDER] = folder
    os.environ[PLACE] = str(place)
    try:
        from prometheus_client import values  # noqa: PLC0415 - it decides when it is first loaded
    except ImportError:
        return
    values.ValueClass = values.MultiProcessValue(lambda: place)  # type: ignore[no-untyped-call]


def shared_folder() -> str:
    """Return the folder in which this process counts together with others, if there is one."""
    return os.environ.get(FOLDER, "")


def own_board(name: str, size: int) -> memoryview:
    """Return so many integers that others can read, as they were left in this place; alone: fresh ones in memory."""
    folder, place = shared_folder(), os.environ.get(PLACE, "")
    if not folder or not place:
        return memoryview(bytearray(size * 8)).cast("q")
    with _board(folder, name, place).open("a+b") as file:
        file.truncate(size * 8)
        return memoryview(mmap.mmap(file.fileno(), size * 8)).cast("q")


def other_boards(name: str) -> Iterator[memoryview]:
    """Return the integers of the other processes, as they are now."""
    folder, place = shared_folder(), os.environ.get(PLACE, "")
    if not folder or not place:
        return
    mine = _board(folder, name, place)
    for path in Path(folder).glob(f"{name}_*.board"):
        if path != mine and (data := path.read_bytes()):
            yield memoryview(data).cast("q")


def _board(folder: str, name: str, place: str) -> Path:
    return Path(folder) / f"{name}_{place}.board"
