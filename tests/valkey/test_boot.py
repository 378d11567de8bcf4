"""Which servers are taken, which are waited for, and what each fault is called."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from flowfabric.model.errors import FlowFabricError, StoreBusy, StoreUnusable, Unreachable
from flowfabric.storage.valkey import ValkeyStore
from flowfabric.storage.valkey.connection import wire
from flowfabric.storage.valkey.connection.client import Client
from flowfabric.storage.valkey.lua.library import FOLDER
from flowfabric.storage.valkey.opening import boot
from flowfabric.storage.valkey.opening.patience import Patience
from flowfabric.storage.valkey.opening.servers import check_info
from flowfabric.testing.servers import free_port
from support.process import refused, started
from support.proxy import proxy
from support.serving import SECRET
from support.tls import Authority
from support.valkey import ValkeyServer
from support.valkey_nodes import node

WHERE = "valkey://there:1/0"
GOOD = {
    "server_name": "valkey",
    "valkey_version": "9.0.1",
    "redis_version": "7.2.4",
    "role": "master",
    "cluster_enabled": "0",
    "maxmemory": "0",
    "maxmemory_policy": "noeviction",
    "loading": "0",
}
PASSES = [
    {},
    {"valkey_version": "7.2.0"},
    {"maxmemory": "1000000", "maxmemory_policy": "volatile-lru"},
]
REFUSED = [
    ({"valkey_version": "7.1.9"}, "is version 7.1.9; upgrade it to 7.2 or newer"),
    ({"valkey_version": "", "redis_version": "6.2.14"}, "upgrade it to 7.2"),
    ({"cluster_enabled": "1"}, "is part of a cluster; open it with valkey+cluster://there:1/0"),
    ({"role": "slave", "master_host": "h", "master_port": "5"}, "name its primary, h:5"),
    ({"maxmemory": "1", "maxmemory_policy": "allkeys-lru"}, "set it to noeviction"),
]
MAY_PASS = [
    ({"loading": "1", "valkey_version": "1.0"}, "still loading"),
    ({"valkey_version": "", "redis_version": ""}, "does not say which version"),
    ({"valkey_version": "unstable"}, "does not say which version it is: 'unstable'"),
]


def in_a_cluster() -> tuple[str, ...]:
    return "--cluster-enabled", "yes", "--cluster-port", str(free_port())


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as servers:
        yield servers


@pytest.mark.parametrize("said", PASSES)
def test_a_server_is_taken(said: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    check_info({**GOOD, **said}, WHERE, clustered=False)
    assert not caplog.messages


@pytest.mark.parametrize(("said", "text"), REFUSED)
def test_a_server_is_refused_with_a_remedy(said: dict[str, str], text: str) -> None:
    with pytest.raises(StoreUnusable, match=re.escape(text)) as caught:
        check_info({**GOOD, **said}, WHERE, clustered=False)
    assert "\n" not in caught.value.text


@pytest.mark.parametrize(("said", "text"), MAY_PASS)
def test_a_server_is_not_ready_yet(said: dict[str, str], text: str) -> None:
    with pytest.raises(StoreBusy, match=text):
        check_info({**GOOD, **said}, WHERE, clustered=False)


def test_a_single_server_is_no_cluster() -> None:
    with pytest.raises(StoreUnusable, match=re.escape("open it with valkeys://there:1")):
        check_info(GOOD, "valkeys+cluster://there:1", clustered=True)


def test_redis_is_taken_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    check_info({"redis_version": "7.4.1", "redis_mode": "standalone"}, WHERE, clustered=False)
    assert caplog.messages == [f"{WHERE} is Redis 7.4.1; FlowFabric is tested with Valkey"]


def test_eviction_without_a_limit_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    check_info({**GOOD, "maxmemory_policy": "allkeys-lfu"}, WHERE, clustered=False)
    assert "before you set maxmemory" in caplog.text


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


async def test_patience_tries_again_at_growing_intervals_until_its_time_is_over() -> None:
    clock = Clock()
    client = Client("valkey://127.0.0.1:1/0")

    async def attempt() -> None:
        await client.call("PING")

    with pytest.raises(Unreachable, match=r"cannot be reached.*\(tried for 60 s\)"):
        await Patience(60, clock=clock, sleep=clock.sleep).keep(attempt)
    assert clock.slept[:6] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    assert sum(clock.slept) == pytest.approx(60)


async def test_patience_ends_when_the_server_answers(stack: ExitStack) -> None:
    server = node(stack)
    server.kill()
    clock = Clock()

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        if len(clock.slept) == 3:
            server.start()

    client = Client(server.url)
    assert await Patience(60, clock=clock, sleep=sleep).keep(lambda: client.call("PING")) == b"PONG"
    assert len(clock.slept) == 3
    client.close()


async def test_what_waiting_cannot_mend_is_told_at_once(stack: ExitStack) -> None:
    clock = Clock()
    client = Client(node(stack, "--requirepass", "x").url)
    with pytest.raises(StoreUnusable, match="refuses the user or the password"):
        await Patience(60, clock=clock, sleep=clock.sleep).keep(lambda: client.call("PING"))
    assert not clock.slept


async def test_a_server_that_loads_its_data_is_waited_for(stack: ExitStack) -> None:
    server = node(stack, "--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024")
    client = Client(server.url)
    await client.several([*(("SET", f"x{number}", "y" * 100) for number in range(2000)), ("SAVE",)])
    client.close()
    server.kill()
    server.start()
    with pytest.raises(StoreBusy, match="loading its data"):
        await ValkeyStore.open(server.url)
    store = await ValkeyStore.open(server.url, patience=30)
    await store.close()


async def opened(url: str) -> FlowFabricError:
    try:
        store = await ValkeyStore.open(url)
    except FlowFabricError as error:
        return error
    await store.close()
    raise AssertionError(f"{url} was opened")


async def test_a_port_without_tls(server: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "CONNECT_SECONDS", 0.3)
    error = await opened(server.url.replace("valkey:", "valkeys:"))
    assert isinstance(error, StoreUnusable)
    assert f"does not speak TLS on that port; use its port for TLS, or {server.url}" in error.text


async def test_a_port_for_tls(server: ValkeyServer, tmp_path: Path) -> None:
    async with proxy(server.port, Authority(tmp_path).server("127.0.0.1")) as secured:
        error = await opened(f"valkey://127.0.0.1:{secured.port}/0")
    assert isinstance(error, StoreUnusable)
    assert f"wants TLS on that port; use valkeys://127.0.0.1:{secured.port}/0" in error.text


async def test_nobody_at_a_port_for_tls_is_no_matter_of_tls() -> None:
    assert isinstance(await opened("valkeys://127.0.0.1:1/0"), Unreachable)


async def test_a_replica_a_cluster_and_eviction(server: ValkeyServer, stack: ExitStack) -> None:
    following = await opened(node(stack, "--replicaof", f"127.0.0.1 {server.port}").url)
    assert f"name its primary, 127.0.0.1:{server.port}" in following.text
    member = await opened(node(stack, *in_a_cluster()).url)
    assert "open it with valkey+cluster://" in member.text
    evicting = await opened(node(stack, "--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru").url)
    assert "set it to noeviction" in evicting.text
    assert {type(error) for error in (following, member, evicting)} == {StoreUnusable}


async def test_a_database_that_is_not_there(server: ValkeyServer) -> None:
    for number in ("99", "x"):
        assert isinstance(await opened(f"valkey://127.0.0.1:{server.port}/{number}"), StoreUnusable)


async def test_users_passwords_and_databases_come_from_the_url(stack: ExitStack) -> None:
    server = node(stack)
    client = Client(server.url)
    await client.call("ACL", "SETUSER", "ada", "on", ">s:cr/t", *boot.RIGHTS.split())
    store = await ValkeyStore.open(f"valkey://ada:s%3Acr%2Ft@127.0.0.1:{server.port}/3")
    await store.close()
    held = dict(
        line.split(":", 1) for line in (await client.call("INFO", "keyspace")).decode().split() if ":" in line
    )
    assert set(held) == {"db3"}
    client.close()


@pytest.mark.parametrize(
    ("rights", "missing"),
    [
        ("~ff:* &ff:wake:* +@all -@dangerous +info -zadd -xadd", "may not send XADD, ZADD about"),
        ("~ff:* &other:* +@all", "may not send PUBLISH, SUBSCRIBE about"),
        ("~other:* &ff:wake:* +@all", "NOPERM"),
        ("~ff:* &ff:wake:* +@connection", "INFO: NOPERM"),
    ],
)
async def test_a_right_that_is_missing_is_told_at_the_start(
    stack: ExitStack, rights: str, missing: str
) -> None:
    server = node(stack)
    client = Client(server.url)
    await client.call("ACL", "SETUSER", "ada", "on", ">x", *rights.split())
    client.close()
    error = await opened(f"valkey://ada:x@127.0.0.1:{server.port}/0")
    assert isinstance(error, StoreUnusable)
    assert missing in error.text
    assert "rights" in error.text


def test_every_command_that_is_sent_is_among_the_rights() -> None:
    inside = "".join(path.read_text("utf-8") for path in sorted(FOLDER.rglob("*.lua")))
    outside = "".join(path.read_text("utf-8") for path in sorted(Path(boot.__file__).parent.glob("*.py")))
    called = {*re.findall(r"redis\.call\('([A-Z]+)'", inside), *re.findall(r"""EACH, "([A-Z]+)\"""", outside)}
    assert called <= set(boot.COMMANDS)


def test_a_server_says_what_is_wrong_and_ends_with_one(tmp_path: Path, stack: ExitStack) -> None:
    for server, text in (
        (node(stack, *in_a_cluster()), "open it with valkey+cluster://"),
        (node(stack, "--requirepass", "x"), "refuses the user or the password"),
    ):
        code, said = refused(tmp_path, "--store", server.url, FF_WAITPOINT_HMAC_SECRET=SECRET)
        assert (code, text in said, "Traceback" in said) == (1, True, False), said


def test_a_server_waits_for_its_store(tmp_path: Path, stack: ExitStack) -> None:
    store = node(stack)
    store.kill()
    with started(tmp_path, "--store", store.url, FF_WAITPOINT_HMAC_SECRET=SECRET, FF_LANES="b,a") as server:
        while "the store is not ready" not in server.said():
            assert server.child.poll() is None, server.said()
        store.start()
        server.wait_until_ready()
        lanes = server.call("GET", "/v1/lanes")[1]["lanes"]
        assert [lane["lane_id"] for lane in lanes] == ["a", "b"]
        assert server.end() == 0
