"""What `ff doctor` looks at in a SQLite file."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Final

from flowfabric.cli.findings import Finding, Verdict, judged
from flowfabric.cli.formats import sqlite_file
from flowfabric.storage.resolve import MEMORY
from flowfabric.storage.sqlite.connection import connect, is_read_only

LARGE_LOG_BYTES: Final = 256 * 1024 * 1024
LITTLE_ROOM_BYTES: Final = 1024 * 1024 * 1024
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def examine(url: str) -> list[Finding]:
    """Look at the file, its settings and its disk."""
    if MEMORY in url:
        return [
            Finding("file", "in memory", Verdict.NOTE, "everything is lost with its process; name a file")
        ]
    path = sqlite_file(url)
    with closing(connect(str(path), read_only=True)) as db:
        # Of a file that cannot change SQLite does not tell it; who may write keeps it in that mode.
        journal = "wal" if is_read_only(str(path)) else str(db.execute("pragma journal_mode").fetchone()[0])
        sound = str(db.execute("pragma quick_check(1)").fetchone()[0])
    log = Path(f"{path}-wal")
    log_bytes = log.stat().st_size if log.exists() else 0
    free = shutil.disk_usage(path.parent).free
    return [
        Finding("sqlite", sqlite3.sqlite_version),
        judged("journal", journal, good=journal == "wal", remedy="put the file on a local disk: it must be wal"),
        judged("file", f"{_size(path.stat().st_size)}, {sound}", good=sound == "ok", remedy="restore it from a backup"),
        judged(
            "log", _size(log_bytes), good=log_bytes < LARGE_LOG_BYTES, verdict=Verdict.NOTE,
            remedy="somebody reads for very long, or a process was left behind; end it",
        ),
        judged("disk", f"{_size(free)} free", good=free > LITTLE_ROOM_BYTES, remedy="make room before it is full"),
        _synchronous(),
        _rights(path),
        Finding("clock", "this machine's, for all processes"),
    ]  # fmt: skip


def _synchronous() -> Finding:
    chosen = os.environ.get("FF_SQLITE_SYNCHRONOUS", "NORMAL").upper()
    remedy = (
        "a loss of power may cost the last moments; FULL keeps them"
        if chosen == "NORMAL"
        else "a loss of power may damage the file; use NORMAL or FULL"
    )
    verdict = Verdict.NOTE if chosen == "NORMAL" else Verdict.CHANGE
    return judged("synchronous", chosen, good=chosen in {"FULL", "EXTRA"}, verdict=verdict, remedy=remedy)


def _rights(path: Path) -> Finding:
    mode = stat.S_IMODE(path.stat().st_mode)
    if is_read_only(str(path)):
        return Finding(
            "rights", f"{mode:o}, read-only for this user", Verdict.NOTE,
            "it can be looked at, but not changed; who submits or works must be able to write file and folder",
        )  # fmt: skip
    return judged(
        "rights", f"{mode:o}", good=not mode & OTHERS, verdict=Verdict.NOTE,
        remedy=f"others may read payloads and secrets: chmod 600 {path}",
    )  # fmt: skip


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
