"""Notify other processes that share the file, through one datagram socket for each in a folder beside it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import logging
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from flowfabric.storage.wake import EVERYTHING

MAX_DATAGRAM: Final = 32_768
MAX_SOCKET_PATH: Final = 100
BIND_TRIES: Final = 5
PRIVATE: Final = 0o700
OTHERS: Final = 0o077
"""The mode bits that let somebody else into a folder."""
log = logging.getLogger("flowfabric.sqlite")
_numbers = itertools.count()


class Peers:
    """Publishes topics to the other processes, and receives theirs."""

    def __init__(self, database: str, on_topics: Callable[[set[str], int], None]) -> None:
        self._folder = _folder(database)
        self._on_topics = on_topics
        self._socket: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._others: list[str] = []
        self._folder_seen = 0
        self._owed: set[str] = set()
        self.heard = False
        """True if anything was received since this was last cleared."""

    def start(self) -> None:
        """Bind the socket of this process; without one, the store only polls."""
        if not hasattr(socket, "AF_UNIX"):
            return
        self._name = f"{os.getpid()}-{next(_numbers)}"
        try:
            sock = _bind(self._folder, self._name)
        except OSError as error:
            log.warning("other processes are not woken at once, only by polling: %s", error)
            return
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock.fileno(), self._receive)

    def _receive(self) -> None:
        assert self._socket is not None
        topics: set[str] = set()
        due_at = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                due, *some = self._socket.recv(MAX_DATAGRAM * 2).decode().split("\n")
                topics.update(some)
                due_at = min(due_at or int(due), int(due)) if int(due) else due_at
        self.heard = True
        self._on_topics(topics, due_at)

    def send(self, topics: Iterable[str], due_at: int) -> None:
        """Publish topics to every other process; called by the writer's thread."""
        if self._socket is None:
            return
        others = self._look()
        if not others:
            return
        message = "\n".join((str(due_at), *topics)).encode()
        if len(message) > MAX_DATAGRAM:
            message = _ALL
        for name in others:
            self._send_to(name, _ALL if name in self._owed else message)

    @property
    def alone(self) -> bool:
        """Return True if no other process shares the file."""
        return self._socket is None or not self._look()

    def _send_to(self, name: str, message: bytes) -> None:
        assert self._socket is not None
        address = self._folder / name
        try:
            self._socket.sendto(message, str(address))
            self._owed.discard(name)
        except (ConnectionRefusedError, FileNotFoundError):  # its process was killed
            address.unlink(missing_ok=True)
        except (BlockingIOError, OSError):  # its buffer is full: it is awake, and gets everything next time
            self._owed.add(name)

    def _look(self) -> list[str]:
        """List the other sockets, again only when the folder has changed."""
        try:
            changed = self._folder.stat().st_mtime_ns
        except FileNotFoundError:
            return []
        if changed != self._folder_seen:
            self._folder_seen = changed
            self._others = [name for name in os.listdir(self._folder) if name != self._name]  # noqa: PTH208
        return self._others

    def stop(self) -> None:
        """Remove the socket of this process."""
        if self._socket is None:
            return
        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._socket = None
        (self._folder / self._name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._folder.rmdir()


def _bind(folder: Path, name: str) -> socket.socket:
    """Bind a socket in the folder, which is created again when the last process before us has just removed it."""
    for _ in range(BIND_TRIES):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=PRIVATE)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            _check_ours(folder)
            sock.setblocking(False)
            sock.bind(str(folder / name))
        except FileNotFoundError:
            sock.close()
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise FileNotFoundError(f"{folder} is removed again and again")


def _check_ours(folder: Path) -> None:
    """Refuse a folder that somebody else made or can write to: its sockets could hear and forge wake-ups."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & OTHERS:
        raise PermissionError(f"{folder} is not a folder of this user alone (mode 700); remove it")


_ALL: Final = f"0\n{EVERYTHING}".encode()


def _folder(database: str) -> Path:
    """Beside the file, or in the temporary folder when the name would be too long for a socket."""
    beside = Path(f"{database}-wake")
    if len(str(beside)) <= MAX_SOCKET_PATH - 20:
        return beside
    digest = hashlib.sha256(database.encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"flowfabric-{os.getuid()}-{digest}"
