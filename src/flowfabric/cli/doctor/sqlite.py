"""Check a SQLite file, its settings and its disk."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Final

from flowfabric.cli.doctor.finding import Finding, Verdict, check
from flowfabric.cli.support.sqlite_format import sqlite_file
from flowfabric.storage.resolve import MEMORY
from flowfabric.storage.sqlite.connection import connect, is_read_only

MAX_LOG_BYTES: Final = 256 * 1024 * 1024
MIN_FREE_BYTES: Final = 1024 * 1024 * 1024
GROUP_AND_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def check_sqlite(url: str) -> list[Finding]:
    """Check the SQLite file at a URL."""
    if MEMORY in url:
        return [
            Finding(
                "file", "in memory", Verdict.NOTE, "everything is lost when its process ends; name a file"
            )
        ]
    path = sqlite_file(url)
    with closing(connect(str(path), read_only=True)) as db:
        # SQLite does not report the mode of a read-only file; every process that writes to it sets wal.
        journal = "wal" if is_read_only(str(path)) else str(db.execute("pragma journal_mode").fetchone()[0])
        sound = str(db.execute("pragma quick_check(1)").fetchone()[0])
    log = Path(f"{path}-wal")
    log_bytes = log.stat().st_size if log.exists() else 0
    free = shutil.disk_usage(path.parent).free
    return [
        Finding("sqlite", sqlite3.sqlite_version),
        check("journal", journal, ok=journal == "wal", remedy="put the file on a local disk: it must be wal"),
        check(
            "file",
            f"{_format_size(path.stat().st_size)}, {sound}",
            ok=sound == "ok",
            remedy="restore it from a backup",
        ),
        check(
            "log",
            _format_size(log_bytes),
            ok=log_bytes < MAX_LOG_BYTES,
            verdict=Verdict.NOTE,
            remedy="a process reads for very long, or was left behind; end it",
        ),
        check(
            "disk",
            f"{_format_size(free)} free",
            ok=free > MIN_FREE_BYTES,
            remedy="free some space before the disk is full",
        ),
        _check_synchronous(),
        _check_rights(path),
        Finding("clock", "this machine's, for all processes"),
    ]


def _check_synchronous() -> Finding:
    chosen = os.environ.get("FF_SQLITE_SYNCHRONOUS", "NORMAL").upper()
    remedy = (
        "a power failure may lose the last transactions; FULL keeps them"
        if chosen == "NORMAL"
        else "a power failure may damage the file; use NORMAL or FULL"
    )
    verdict = Verdict.NOTE if chosen == "NORMAL" else Verdict.CHANGE
    return check("synchronous", chosen, ok=chosen in {"FULL", "EXTRA"}, verdict=verdict, remedy=remedy)


def _check_rights(path: Path) -> Finding:
    mode = stat.S_IMODE(path.stat().st_mode)
    if is_read_only(str(path)):
        return Finding(
            "rights",
            f"{mode:o}, read-only for this user",
            Verdict.NOTE,
            "it can be read, but not changed; to submit or work, you need write access to the file and its folder",
        )
    return check(
        "rights",
        f"{mode:o}",
        ok=not mode & GROUP_AND_OTHERS,
        verdict=Verdict.NOTE,
        remedy=f"others may read payloads and secrets: chmod 600 {path}",
    )


def _format_size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
