"""What README.md, docs/guides/server.md and docs/guides/valkey.md type to have a server, and a server in a program."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from flowfabric.server.settings import load_settings
from flowfabric.testing.servers import free_port, valkey_server
from support.process import started
from support.shell import ROOT, blocks, shell
from support.valkey import shared_server
from support.valkey_cluster import shared_cluster

SECRET = {"FF_WAITPOINT_HMAC_SECRET": "5a" * 32}


def served(script: str) -> tuple[str, str]:
    """Tell the server's own flags from what is typed when it runs."""
    (flags,) = re.findall(r"^\S*\bff server\b([^#\n]*)", script, re.MULTILINE)
    return flags, re.sub(r"^\S*\bff server\b.*\n", "", script, flags=re.MULTILINE)


def answers(shown: str) -> Iterator[Any]:
    decoder, place = json.JSONDecoder(), 0
    while place < len(shown):
        answer, place = decoder.raw_decode(shown, place)
        yield answer


@pytest.mark.parametrize("store", ["sqlite", "valkey"])
def test_what_the_readme_types(store: str, tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    plain, valkey = re.findall(r"^```\w*\n([^`]*?ff server.*?)^```$", text, re.MULTILINE | re.DOTALL)
    flags, asks = served(plain)
    with ExitStack() as stack:
        if store == "valkey":
            url = stack.enter_context(valkey_server())
            flags = served(valkey)[0].replace("valkey://localhost:6379/0", url)
        server = stack.enter_context(started(tmp_path, *flags.split(), **SECRET))
        server.wait_until_ready()
        shown = shell(asks, tmp_path, {"localhost:9090": f"127.0.0.1:{server.port}"})
    submitted, claimed = answers(shown)
    (task,) = claimed["tasks"]
    assert task["execution_id"] == submitted["execution_id"]
    assert task["execution_kind"] == "greet"


def test_what_the_guide_types(tmp_path: Path) -> None:
    flags, asks = served(blocks("docs/guides/server.md")[0])
    with started(tmp_path, *flags.split()) as server:
        server.wait_until_ready()
        shown = shell(asks, tmp_path, {"127.0.0.1:9090": f"127.0.0.1:{server.port}"})
        health, submitted = answers(shown)
        assert health["status"] == "ok"
        assert (
            server.call("GET", f"/v1/executions/{submitted['execution_id']}")[1]["public_state"] == "waiting"
        )


def test_the_settings_of_the_guide_are_taken(tmp_path: Path) -> None:
    (text,) = blocks("docs/guides/server.md", "toml")
    (tmp_path / "ff.toml").write_text(text, encoding="utf-8")
    settings = load_settings({}, environ={}, config=str(tmp_path / "ff.toml"))
    assert settings.lanes == ("default", "slow")
    assert settings.store == "/var/lib/flowfabric/flowfabric.db"


@pytest.mark.parametrize("place", [0, 1], ids=["valkey", "cluster"])
def test_what_the_guide_of_valkey_types(place: int, tmp_path: Path) -> None:
    flags, _ = served(blocks("docs/guides/valkey.md")[place])
    real = shared_cluster().url if place else shared_server().url
    with started(tmp_path, *re.sub(r"valkey\S*", real, flags).split(), **SECRET) as server:
        server.wait_until_ready()
        assert server.submit(kind="greet")


async def test_a_server_in_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = blocks("docs/guides/server.md", "python")
    begin, end = program.split("\n...\n")
    port = free_port()
    names: dict[str, Any] = {}
    await run(begin.replace("9090", str(port)), names)
    health = f"http://127.0.0.1:{port}/healthz"
    with await asyncio.to_thread(urllib.request.urlopen, health, timeout=20) as reply:
        assert reply.status == 200
    await run(end, names)
    assert names["serving"].done()


async def run(source: str, names: dict[str, Any]) -> None:
    """Run some lines that await as if they stood in a coroutine."""
    code = compile(source, "guide", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    awaited = eval(code, names)
    if awaited is not None:
        await awaited
