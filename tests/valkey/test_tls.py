"""`valkeys://`: the same store behind TLS, and what is told when trust is missing."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from flowfabric.engine.waiting import claim_when_ready
from flowfabric.model.errors import FlowFabricError, StoreUnusable, Unreachable
from flowfabric.model.operations.claim import Claim
from flowfabric.model.operations.stream import AppendFrames, FrameInput, ReadStream
from flowfabric.storage import open_store
from support.clock import ManualClock
from support.driver import Driver, new_uuid
from support.proxy import Proxy, proxy
from support.tls import Authority
from support.until import listening
from support.valkey import ValkeyServer, empty_server

HOST = "localhost"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


Secured = Callable[[ssl.SSLContext], AbstractAsyncContextManager[Proxy]]


@pytest.fixture
def secured(server: ValkeyServer) -> Secured:
    @asynccontextmanager
    async def behind(context: ssl.SSLContext) -> AsyncIterator[Proxy]:
        async with proxy(server.port, context) as between:
            yield between

    return behind


async def works(url: str) -> None:
    """Do a bit of everything: functions, questions, large bytes, waking."""
    store = await open_store(url)
    ff = Driver(store, ManualClock())
    claim = Claim(worker_id="w", worker_instance_id="w", lanes=("default",), mint=new_uuid())
    waiting = asyncio.create_task(claim_when_ready(store, claim, 10_000))
    await listening(store, "lane:default")
    made = await ff.create(input_payload=b"\x00\xff" * 100_000)
    (task,) = (await waiting).tasks
    assert (task.execution_id, task.input) == (made, b"\x00\xff" * 100_000)
    frames = tuple(FrameInput(bytes([at]) * 60_000) for at in range(10))
    await store.apply(AppendFrames(execution_id=made, fence=task.fence, frames=frames))
    page = await store.read(ReadStream(execution_id=made, attempt_index=task.attempt_index))
    assert [view.frame.payload for view in page.frames] == [frame.payload for frame in frames]
    await ff.complete(task, b"done")
    assert (await ff.show(made)).public_state == "completed"
    await store.close()


async def test_a_trusted_server(authority: Authority, secured: Secured) -> None:
    async with secured(authority.server(HOST)) as between:
        await works(f"valkeys://{HOST}:{between.port}/0?ssl_ca_certs={authority.file}")


def test_a_trusted_server_on_the_loop_of_the_server(authority: Authority) -> None:
    async def main() -> None:
        async with empty_server() as server, proxy(server.port, authority.server(HOST)) as between:
            await works(f"valkeys://{HOST}:{between.port}/0?ssl_ca_certs={authority.file}")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


async def test_a_server_that_nobody_vouches_for(
    authority: Authority, secured: Secured, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other")
    async with secured(authority.server(HOST)) as between:
        for query in ("", f"?ssl_ca_certs={other.file}"):
            with pytest.raises(StoreUnusable, match=r"not trusted: .*ssl_ca_certs"):
                await open_store(f"valkeys://{HOST}:{between.port}/0{query}")


async def test_a_server_of_another_name(authority: Authority, secured: Secured) -> None:
    async with secured(authority.server("valkey.example.org")) as between:
        with pytest.raises(StoreUnusable, match=r"Hostname mismatch.*host name"):
            await open_store(f"valkeys://{HOST}:{between.port}/0?ssl_ca_certs={authority.file}")
        unchecked = f"valkeys://{HOST}:{between.port}/0?ssl_ca_certs={authority.file}&ssl_check_hostname=no"
        await works(unchecked)


async def test_trust_may_be_waived(authority: Authority, secured: Secured) -> None:
    async with secured(authority.server("valkey.example.org")) as between:
        await works(f"valkeys://{HOST}:{between.port}/0?ssl_cert_reqs=none")


async def test_a_server_that_asks_for_a_certificate(authority: Authority, secured: Secured) -> None:
    cert, key = authority.client()
    async with secured(authority.server(HOST, asks=True)) as between:
        url = f"valkeys://{HOST}:{between.port}/0?ssl_ca_certs={authority.file}"
        with pytest.raises(FlowFabricError) as caught:
            await open_store(url)
        assert isinstance(caught.value, StoreUnusable | Unreachable)
        await works(f"{url}&ssl_certfile={cert}&ssl_keyfile={key}")


async def test_files_and_servers_that_are_not_what_the_address_says(
    authority: Authority, secured: Secured, server: ValkeyServer, tmp_path: Path
) -> None:
    with pytest.raises(StoreUnusable, match="a file of the address is not there"):
        await open_store(f"valkeys://{HOST}:{server.port}/0?ssl_ca_certs={tmp_path / 'none.pem'}")
    async with plain() as port:
        with pytest.raises(StoreUnusable, match="does not speak TLS"):
            await open_store(f"valkeys://{HOST}:{port}/0?ssl_ca_certs={authority.file}")
    with pytest.raises(StoreUnusable, match="no_such_option"):
        await open_store(f"valkey://{HOST}:{server.port}/0?no_such_option=1")
    with pytest.raises(StoreUnusable, match="no address of a server"):
        await open_store(f"valkeys://{HOST}:{server.port}/0?ssl_check_hostname=1&socket_timeout=soon")


@asynccontextmanager
async def plain() -> AsyncIterator[int]:
    """A port behind which somebody complains at once, in plain text."""

    async def complain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"-ERR what was that?\r\n")
        writer.close()

    server = await asyncio.start_server(complain, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_passwords_are_told_to_nobody(
    authority: Authority, secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with secured(authority.server("valkey.example.org")) as between:
        for url in (
            f"valkeys://ann:pass-word@{HOST}:{between.port}/0?ssl_ca_certs={authority.file}",
            f"valkeys://{HOST}:{between.port}/0?ssl_ca_certs={authority.file}&password=pass-word",
        ):
            with pytest.raises(StoreUnusable) as caught:
                await open_store(url)
            assert HOST in str(caught.value)
            assert "pass-word" not in f"{caught.value!r}{caught.value.__cause__!r}{caplog.text}"
