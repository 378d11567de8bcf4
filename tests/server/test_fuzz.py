"""Thousands of requests that follow the description of the interface, or nearly do, against a real server."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from flowfabric.server.answers import PLAIN
from flowfabric.server.openapi import document
from flowfabric.storage import open_store
from support.server import running

REQUESTS = 5_000
CHECKS: list[Any] = [
    not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance,
]  # fmt: skip
ENDLESS = {key for key, kind in PLAIN.items() if kind == "text/event-stream"}
WAITS = ("timeout_ms", "block_ms", "wait_ms")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server in a thread of its own, so that a client that blocks does not block it."""
    folder: Path = tmp_path_factory.mktemp("fuzz")
    ready: Queue[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Queue()

    async def main() -> None:
        stop = asyncio.Event()
        store = await open_store(str(folder / "fuzz.db"))
        async with running(store) as api:
            ready.put((api.base, asyncio.get_running_loop(), stop))
            await stop.wait()
        await store.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    url, loop, stop = ready.get(timeout=30)
    yield url
    loop.call_soon_threadsafe(stop.set)
    thread.join(30)


class Fuzzer:
    """Sends cases; now and then about something that really exists."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.session = requests.Session()
        self.sent: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self.ids = [self._submit() for _ in range(8)]
        self.tasks = self._claim()

    def _submit(self) -> str:
        answer = self.session.post(f"{self.base}/v1/submit", json={"kind": "job", "input": [1]}, timeout=10)
        return str(answer.json()["execution_id"])

    def _claim(self) -> dict[str, Any]:
        asked: dict[str, Any] = {
            "worker_instance_id": "w-a",
            "lanes": ["default"],
            "max_tasks": 8,
            "lease_ttl_ms": 3_600_000,
        }
        answer = self.session.post(f"{self.base}/v1/workers/w/tasks", json=asked, timeout=10)
        return {task["execution_id"]: task["fence"] for task in answer.json()["tasks"]}

    def aim(self, case: Any) -> None:
        """Let two of three requests be about an execution of ours, every other one by its holder."""
        number = self.sent.total()
        if number % 3 and "id" in (case.path_parameters or {}):
            execution_id = self.ids[number % len(self.ids)]
            case.path_parameters["id"] = execution_id
            if isinstance(case.body, dict):
                if "fence" in case.body and number % 2:
                    case.body["fence"] = self.tasks[execution_id]
                if "execution_id" in case.body:
                    case.body["execution_id"] = execution_id
        for part in (case.query, case.body):
            if isinstance(part, dict):
                part.update({name: 10 for name in WAITS if isinstance(part.get(name), int)})

    def send(self, case: Any) -> None:
        """Send one case and hold the answer to the description."""
        key = f"{case.method} {case.operation.path}"
        self.aim(case)
        self.sent[key] += 1
        response = case.call(base_url=self.base, session=self.session, timeout=20)
        self.statuses[response.status_code] += 1
        case.validate_response(response, checks=CHECKS)


@pytest.mark.timeout(900)
def test_no_request_breaks_the_server_or_the_description(base: str) -> None:
    schema = schemathesis.openapi.from_dict(document())
    results: list[Any] = list(schema.get_all_operations())
    found = [result.ok() for result in results]
    operations = [each for each in found if f"{each.method.upper()} {each.path}" not in ENDLESS]
    fuzzer = Fuzzer(base)
    each_time = REQUESTS * 6 // 5 // len(operations) + 1  # routes without input are done after one request
    faults: list[str] = []
    for operation in operations:
        for mode, share in ((GenerationMode.POSITIVE, 0.7), (GenerationMode.NEGATIVE, 0.3)):
            try:
                _run(fuzzer, operation, mode, int(each_time * share) + 1)
            except Exception as error:  # noqa: BLE001 - every fault of every route is told, not only the first
                faults.append(f"{operation.method.upper()} {operation.path} ({mode.value}): {error}"[:2_000])
    fuzzer.session.close()
    assert not faults, "\n\n".join(faults)
    assert fuzzer.sent.total() >= REQUESTS


def _run(fuzzer: Fuzzer, operation: Any, mode: GenerationMode, count: int) -> None:
    @settings(
        max_examples=count, deadline=None, database=None, phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def exercise(case: Any) -> None:
        fuzzer.send(case)

    try:
        exercise()
    except Unsatisfiable:  # what takes no input cannot be given a wrong one
        assert mode is GenerationMode.NEGATIVE
