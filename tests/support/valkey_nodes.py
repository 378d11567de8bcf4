"""Servers that follow each other, stop and go on; each is asked directly, past whatever stands in between."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import valkey
from support.until import until
from support.valkey import ValkeyServer

FAST = ("--repl-diskless-sync-delay", "0", "--repl-timeout", "5")


@contextmanager
def nodes() -> Iterator[ExitStack]:
    """Servers that are entered here are stopped at the end, whatever happens."""
    with ExitStack() as stack:
        yield stack


def node(stack: ExitStack, *options: str) -> ValkeyServer:
    """Start a server."""
    server = ValkeyServer(*FAST, *options)
    stack.callback(server.stop)
    stack.callback(resume, server)
    return server


async def replica(stack: ExitStack, primary: ValkeyServer, count: int = 1) -> ValkeyServer:
    """Start a server that follows another as one of so many, and wait until it has everything."""
    server = node(stack, "--replicaof", f"127.0.0.1 {primary.port}")
    await following(primary, count)
    return server


async def following(primary: ValkeyServer, count: int = 1) -> None:
    """Wait until so many replicas have all that was written, and confirm what comes."""
    await until(lambda: info(primary, "replication")["connected_slaves"] == count)
    with valkey.Valkey(port=primary.port, single_connection_client=True) as client:
        client.publish("nobody", "is everybody here?")
        assert await asyncio.to_thread(client.wait, count, 10_000) == count


def ask(server: ValkeyServer, *arguments: Any) -> Any:
    """Send one command on a connection of its own."""
    with valkey.Valkey(port=server.port, socket_timeout=10) as client:
        return client.execute_command(*arguments)


def info(server: ValkeyServer, section: str) -> dict[str, Any]:
    """Read what a server says of itself."""
    with valkey.Valkey(port=server.port, socket_timeout=10) as client:
        told: dict[str, Any] = client.info(section)
        return told


def pause(server: ValkeyServer) -> None:
    """Stop it where it stands; its connections stay open."""
    os.kill(server.process.pid, signal.SIGSTOP)


def resume(server: ValkeyServer) -> None:
    """Let it go on."""
    if server.process.poll() is None:
        os.kill(server.process.pid, signal.SIGCONT)
