"""What a server process costs while somebody attacks it: its memory, and how long `/livez` takes meanwhile.

with started(tmp_path, *backend.flags) as server:
    server.wait_until_ready()
    ...  # data, warm-up
    with attacked(server) as attack, unread(server, request("GET", "/openapi.json"), 20):
        attack.endure(3.0)
    attack.check()
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from support.process import Process

MIB: Final = 1024 * 1024
MOST_BYTES: Final = 100 * MIB
MOST_SECONDS: Final = 1.0
GIVE_UP_SECONDS: Final = 30.0


class Attack:
    """What was measured since the attack began."""

    def __init__(self, server: Process) -> None:
        self._server = server
        self._ended = threading.Event()
        self._probed = threading.Semaphore(0)
        self._probing = threading.Thread(target=self._probe, daemon=True)
        self.seconds: list[float] = []
        """How long each `/livez` took."""
        _forget_peak(server.child.pid)
        self.before = _memory(server.child.pid, "VmRSS")
        self.peak = self.before

    @property
    def growth(self) -> int:
        """By how many bytes the resident memory grew at its peak."""
        self.peak = max(self.peak, _memory(self._server.child.pid, "VmHWM"))
        return self.peak - self.before

    def endure(self, seconds: float, *, probes: int = 3) -> None:
        """Let the attack go on for so long, and for so many answers of `/livez` at least."""
        end = time.monotonic() + seconds
        while probes > 0 or time.monotonic() < end:
            assert self._probed.acquire(timeout=GIVE_UP_SECONDS), "/livez does not answer"
            probes -= 1

    def check(self, *, most_bytes: int = MOST_BYTES, most_seconds: float = MOST_SECONDS) -> None:
        """Be sure that the server stood it."""
        grown, slowest = self.growth, max(self.seconds)
        assert grown < most_bytes, f"{grown / MIB:.0f} MiB more than before ({self.before / MIB:.0f} MiB)"
        assert slowest < most_seconds, f"/livez took {slowest:.2f} s"

    def begin(self) -> None:
        """Ask `/livez` again and again, on a connection of its own each time."""
        self._probing.start()

    def end(self) -> None:
        """Stop asking."""
        self._ended.set()
        self._probing.join(GIVE_UP_SECONDS)

    def _probe(self) -> None:
        while not self._ended.is_set():
            begin = time.monotonic()
            try:
                status, _ = self._server.call("GET", "/livez", timeout=GIVE_UP_SECONDS)
            except OSError:
                return
            if status == 200:
                self.seconds.append(time.monotonic() - begin)
                self._probed.release()
            self._ended.wait(0.02)


@contextmanager
def attacked(server: Process) -> Iterator[Attack]:
    """Measure a server while the block attacks it; call `check` when it is over."""
    attack = Attack(server)
    attack.begin()
    try:
        yield attack
        _ = attack.growth
    finally:
        attack.end()


@contextmanager
def unread(
    server: Process, message: bytes, count: int, *, repeat: int = 1
) -> Iterator[Sequence[socket.socket]]:
    """Open so many connections that send a message, so many times as the server takes it, and never read."""
    with ExitStack() as stack:
        opened = [stack.enter_context(_connected(server)) for _ in range(count)]
        for each in opened:
            _send(each, message * repeat)
        yield opened


def request(method: str, path: str, body: Any = None, *headers: str) -> bytes:
    """Write a request as it goes over the wire."""
    data = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", *headers]
    if body is not None:
        lines += ["content-type: application/json", f"content-length: {len(data)}"]
    return "\r\n".join((*lines, "", "")).encode() + data


def _connected(server: Process) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # so that little hides in the system
    made.settimeout(GIVE_UP_SECONDS)
    made.connect(("127.0.0.1", server.port))
    return made


def _send(to: socket.socket, data: bytes) -> None:
    """Send as much as the other side takes: it may stop reading."""
    to.settimeout(0.5)
    try:
        to.sendall(data)
    except OSError:
        return


def _memory(pid: int, field: str) -> int:
    """Read the memory of a process and of those that it has started, in bytes."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    (own,) = (int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))
    return own + sum(_memory(int(child), field) for child in children)


def _forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5", "ascii")
