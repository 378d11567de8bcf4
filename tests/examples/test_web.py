"""The examples that serve the web: real requests, and workers in processes of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvicorn

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(folder: str, store: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import an example as a program that uses this store."""
    monkeypatch.setenv("FF_STORE", str(store))
    spec = util.spec_from_file_location(f"example_{folder}", EXAMPLES / folder / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@contextmanager
def worker(folder: str, store: Path, *arguments: str) -> Iterator[None]:
    """Its worker, which ends well when it is told to end."""
    child = subprocess.Popen(
        [sys.executable, "-W", "error", str(EXAMPLES / folder / "app.py"), *arguments],
        env={**os.environ, "FF_STORE": str(store)},
    )
    try:
        yield
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=20) == 0
    finally:
        child.kill()
        child.wait()


async def test_the_bridge_lets_webhooks_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = load("webhook_bridge", tmp_path / "orders.db", monkeypatch)
    listener = socket.create_server(
        ("127.0.0.1", 0)
    )  # requests wait in its queue until the server takes them
    server = uvicorn.Server(uvicorn.Config(bridge.web, log_level="warning", lifespan="on"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{listener.getsockname()[1]}") as web:

        async def call(method: str, path: str, body: object = None) -> tuple[int, Any]:
            async with web.request(method, path, json=body) as answer:
                return answer.status, await answer.json() if answer.content_length else None

        _, first = await call("POST", "/orders/17")
        assert first["new"]
        run = first["run"]
        assert await call("POST", "/orders/17") == (202, {"run": run, "new": False})

        event = {"id": "evt_1", "amount": 20}
        assert await call("POST", f"/hooks/payments/{run}", event) == (204, None)
        done = {"state": "completed", "result": "17 shipped, paid 20"}
        assert await call("GET", f"/orders/{run}?wait=20") == (200, done)
        assert await call("POST", f"/hooks/payments/{run}", event) == (
            204,
            None,
        )  # once more: nothing happens

        unknown = f"{run[:-4]}0000"
        assert (await call("POST", f"/hooks/payments/{unknown}", event))[0] == 404
        assert (await call("GET", f"/orders/{unknown}"))[0] == 404
        assert (await call("GET", "/orders/nonsense"))[0] == 404
    server.should_exit = True
    await serving


def test_flask_submits_and_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "reports.db"
    module = load("flask_app", store, monkeypatch)
    client = module.site.test_client()
    started = client.post("/reports/2026-05")
    assert started.status_code == 202
    assert client.post("/reports/2026-05").json == started.json
    with worker("flask_app", store):
        report = client.get(f"/reports/{started.json['run']}")
        while report.status_code == 202:  # the worker has not begun yet
            report = client.get(f"/reports/{started.json['run']}")
        assert (report.status_code, report.json) == (200, {"month": "2026-05", "rows": 7})
        assert client.get("/reports/nonsense").status_code == 404
    module.app.sync.close()


def test_django_submits_approves_and_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "invoices.db"
    module = load("django_app", store, monkeypatch)
    from django.test import Client  # noqa: PLC0415 - only after the example has configured it

    client = Client()
    run = client.post("/invoices/ada/start").json()["run"]
    with worker("django_app", store, "work"):
        approved = client.post(f"/runs/{run}/approve", headers={"X-User": "bob"})
        assert approved.status_code == 204
        invoice = client.get(f"/runs/{run}")
        while invoice.status_code == 202:
            invoice = client.get(f"/runs/{run}")
        assert invoice.json() == {"result": "ada-1 sent, checked by bob"}
        assert client.post(f"/runs/{run}/approve").status_code == 409
        assert client.get("/runs/nonsense").status_code == 404
    module.app.sync.close()
