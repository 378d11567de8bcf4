"""Secrets: what a server's log of slow calls can show, which is what anybody may see who watches its commands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from flowfabric.model.conditions import single
from flowfabric.model.operations.access_secret import RotateSecret
from flowfabric.model.operations.signal import DeliverSignal
from flowfabric.model.operations.suspend import Binding, Suspend, Suspended
from flowfabric.storage.valkey import ValkeyStore
from support.driver import SECRET, Driver, new_uuid
from support.valkey import ValkeyServer
from support.valkey_nodes import ask

OTHER = "77" * 32


@pytest.fixture
async def watched(server: ValkeyServer) -> AsyncIterator[ValkeyServer]:
    """Every call is slow, and none is shortened by the log beyond what a server does by itself."""
    ask(server, "CONFIG", "SET", "slowlog-log-slower-than", 0, "slowlog-max-len", 10_000)
    ask(server, "SLOWLOG", "RESET")
    yield server
    ask(server, "CONFIG", "SET", "slowlog-log-slower-than", 10_000, "slowlog-max-len", 128)


def seen(server: ValkeyServer, secret: str) -> set[str]:
    """Name the functions and commands whose arguments show it."""
    calls: list[Any] = ask(server, "SLOWLOG", "GET", -1)
    shown = [words for _, _, _, words, *_ in calls if any(secret.encode() in word for word in words)]
    return {words[1 if words[0] == b"FCALL" else 0].decode() for words in shown}


async def test_secrets_are_seen_when_keys_change_and_tokens_when_they_are_used(
    ff: Driver, watched: ValkeyServer
) -> None:
    assert isinstance(ff.store, ValkeyStore)
    await ff.seed()
    assert seen(watched, SECRET) == {"ff_commit", "SET"}
    ask(watched, "SLOWLOG", "RESET")
    task = await ff.running()
    binding = Binding(new_uuid(), "k")
    suspended = await ff.store.apply(
        Suspend(
            execution_id=task.execution_id,
            fence=task.fence,
            suspension_id=new_uuid(),
            waitpoints=(binding,),
            condition=single("k"),
        )
    )
    assert isinstance(suspended, Suspended)
    token = suspended.waitpoint.waitpoint_token
    digest = token.partition(":")[2]
    assert seen(watched, digest) == {"ff_commit", "HSET"}  # the record of the waitpoint
    assert seen(watched, SECRET) == set()  # it is read, and never sent
    await ff.store.apply(
        DeliverSignal(
            execution_id=task.execution_id,
            waitpoint_id=binding.waitpoint_id,
            signal_id=new_uuid(),
            signal_name="go",
            waitpoint_token=token,
        )
    )
    await ff.store.apply(RotateSecret(new_kid="k2", new_secret_hex=OTHER, grace_ms=0))
    assert seen(watched, digest) <= {"HSET", "ff_commit"}
    assert seen(watched, SECRET) | seen(watched, OTHER) <= {"ff_commit", "SET"}
