"""Thousands of requests that follow the description of the interface, or nearly do, against a real server."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from typing import Any
from urllib.parse import quote

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

from flowfabric.server.http.openapi import document
from flowfabric.wire import routes
from support.process import started

REQUESTS = 5_000
CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
ENDLESS = {f"{route.method} {route.path}" for route in routes() if route.media == "text/event-stream"}
NO_TEXT = (b"\xff", b"\xc3\x28", b"a\x80b", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf5\x80\x80\x80")
JSON = "application/json"
PARAMETER = re.compile(r"\{\w+\}")
WAITS = ("timeout_ms", "block_ms", "wait_ms")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server in a process of its own, so that neither waits for the other's turn."""
    with started(tmp_path_factory.mktemp("fuzz")) as server:
        server.wait_until_ready()
        yield f"http://127.0.0.1:{server.port}"
        assert server.end() == 0


class Fuzzer:
    """Sends cases; now and then about something that really exists."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.session = requests.Session()
        self.sent: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self.spoiled = 0
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
        if key in ENDLESS:
            self.begin(case)
            return
        response = case.call(base_url=self.base, session=self.session, timeout=20)
        self.statuses[response.status_code] += 1
        case.validate_response(response, checks=CHECKS)
        if self.sent[key] % 4 == 0:
            self.spoil(case, NO_TEXT[self.sent[key] // 4 % len(NO_TEXT)])

    def spoil(self, case: Any, bad: bytes) -> None:
        """Send a case once more with bytes that are not UTF-8: in the path, in the query, and in the body."""
        asked = case.as_transport_kwargs(base_url=self.base)
        asked = {name: asked[name] for name in ("method", "headers", "cookies") if name in asked}
        template = case.operation.path
        sent: list[tuple[str, bytes | None]] = [(f"{self.base}{template}?x={quote(bad)}", None)]
        if "{" in template:
            sent.append((self.base + PARAMETER.sub(lambda _: quote(bad), template), None))
        kind = case.media_type or JSON
        if isinstance(case.body, dict):
            spoiled = b'{"' + bad + b'": "' + bad + b'"}' if kind == JSON else b"signal=" + bad
            sent.append((self.base + template, spoiled))
        for url, data in sent:
            headers = dict(asked["headers"]) | {"content-type": kind}
            response = self.session.request(
                **{**asked, "headers": headers}, url=url, data=data, timeout=20, allow_redirects=False
            )
            self.spoiled += 1
            assert response.status_code == 400, (case.method, url, data, response.status_code, response.text)
            case.validate_response(response, checks=CHECKS)

    def begin(self, case: Any) -> None:
        """Open a stream that has no end, and go away after its beginning."""
        asked = case.as_transport_kwargs(base_url=self.base)
        with self.session.request(**asked, stream=True, timeout=20) as response:
            self.statuses[response.status_code] += 1
            kind = response.headers.get("content-type", "").partition(";")[0]
            described = case.operation.definition.raw["responses"]
            assert response.status_code < 500, response.text
            assert str(response.status_code) in described, response.text
            if response.status_code == 200:
                assert kind == "text/event-stream"
                assert next(response.iter_lines()) == b": connected"
            elif response.status_code != 204:
                assert kind == "application/json"
                assert {"error", "code", "retryable", "request_id"} <= response.json().keys()


@pytest.mark.timeout(900)
def test_no_request_breaks_the_server_or_the_description(base: str) -> None:
    schema = schemathesis.openapi.from_dict(deepcopy(document()))  # it changes what it is given
    results: list[Any] = list(schema.get_all_operations())
    operations = [result.ok() for result in results]
    assert {f"{each.method.upper()} {each.path}" for each in operations} >= ENDLESS
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
    assert fuzzer.spoiled > REQUESTS // 4
    assert all(fuzzer.sent[key] > 20 for key in ENDLESS)


def _run(fuzzer: Fuzzer, operation: Any, mode: GenerationMode, count: int) -> None:
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def exercise(case: Any) -> None:
        fuzzer.send(case)

    try:
        exercise()
    except Unsatisfiable:  # what takes no input cannot be given a wrong one
        assert mode is GenerationMode.NEGATIVE
