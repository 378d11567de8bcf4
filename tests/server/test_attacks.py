"""Attacks on the memory and the time of a server, from outside, over real sockets."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from support.attack import attacked, request, unread
from support.process import Process, started
from support.serving import Backend

RECORDS = "accept: application/vnd.flowfabric.record+json"
FRAME = base64.b64encode(b"x" * 60_000).decode()


def _stream(server: Process, megabytes: int) -> str:
    """Write a stream of frames; returns the path of its execution."""
    execution_id = server.submit()
    asked = {"worker_instance_id": "w-a", "lanes": ["default"], "lease_ttl_ms": 3_600_000}
    _, claimed = server.call("POST", "/v1/workers/w/tasks", asked)
    (task,) = claimed["tasks"]
    frames: list[Any] = [{"frame_type": "delta", "payload_base64": FRAME}] * 50
    for _ in range(megabytes // 3):
        status, said = server.call(
            "POST", f"/v1/executions/{execution_id}/frames", {"fence": task["fence"], "frames": frames}
        )
        assert status == 200, said
    return f"/v1/executions/{execution_id}"


@pytest.mark.timeout(180)
def test_answers_that_nobody_reads(tmp_path: Path, backend: Backend) -> None:
    with started(tmp_path, *backend.flags) as server:
        server.wait_until_ready()
        path = _stream(server, 60)
        frames = request("GET", f"{path}/attempts/0/stream?limit=1000")
        records = request(
            "GET", f'{path}/attempts/0/stream?question={{"ReadStream":{{"count":1000}}}}', None, RECORDS
        )
        for message in (frames, records, request("GET", f"{path}/events")):
            with attacked(server) as attack, unread(server, message, 20):
                attack.endure(2)
            attack.check()


@pytest.mark.timeout(180)
def test_requests_whose_answers_nobody_reads(tmp_path: Path, backend: Backend) -> None:
    with started(tmp_path, *backend.flags, FF_API_TOKEN="let-me-in") as server:
        server.wait_until_ready()
        server.call("GET", "/openapi.json")
        for path, repeat in (("/openapi.json", 5_000), ("/livez", 500)):
            with attacked(server) as attack, unread(server, request("GET", path), 50, repeat=repeat):
                attack.endure(2)
            attack.check()


@pytest.mark.timeout(180)
def test_lists_of_large_rows_that_nobody_reads(tmp_path: Path, backend: Backend) -> None:
    with started(tmp_path, *backend.flags) as server:
        server.wait_until_ready()
        tags = {f"k{number}": "v" * 1_000 for number in range(60)}
        for _ in range(3):
            items = [{"kind": "x", "tags": tags}] * 200
            assert server.call("POST", "/v1/submit/batch", {"items": items})[0] == 200
        records = request("GET", '/v1/executions?question={"ListExecutions":{"limit":1000}}', None, RECORDS)
        queue = request("GET", "/v1/executions?order=queue&lane=default&limit=1000")
        for message in (request("GET", "/v1/executions?limit=1000"), queue, records):
            with attacked(server) as attack, unread(server, message, 20):
                attack.endure(2)
            attack.check()
        seen, cursor = 0, ""
        while cursor is not None:
            _, page = server.call("GET", f"/v1/executions?limit=1000&cursor={cursor}")
            seen, cursor = seen + len(page["executions"]), page["next_cursor"]
        assert seen == 600


@pytest.mark.timeout(180)
def test_many_workers_and_lanes_of_others(tmp_path: Path, backend: Backend) -> None:
    with started(tmp_path, *backend.flags) as server:
        server.wait_until_ready()
        mine = server.submit()
        words = [f"capability-{number}" for number in range(250)]
        with attacked(server) as attack:
            for number in range(600):
                said = {
                    "worker_instance_id": f"i{number}",
                    "lanes": ["default"],
                    "capabilities": [*words[:200], f"c{number}"],
                }
                status, told = server.call("POST", "/v1/workers/w/register", said)
                assert status == 200, told
            for start in range(0, 2_000, 500):
                items = [{"kind": "k", "lane": f"lane-{start + number}"} for number in range(500)]
                status, told = server.call("POST", "/v1/submit/batch", {"items": items})
                assert status == 200, told
            for path in (
                f"/v1/executions/{mine}/explain",
                f"/v1/executions/{mine}",
                "/v1/stats",
                "/v1/workers?limit=1",
            ):
                status, told = server.call("GET", path)
                assert status == 200, told
            attack.endure(1)
        attack.check()


@pytest.mark.timeout(180)
def test_workers_of_many_kinds_that_nobody_reads(tmp_path: Path, backend: Backend) -> None:
    with started(tmp_path, *backend.flags) as server:
        server.wait_until_ready()
        said: dict[str, Any] = {"lanes": ["default"], "liveness_ttl_ms": 3_600_000}
        said["kinds"] = [f"{number:04}{'k' * 240}" for number in range(260)]
        for number in range(300):
            status, told = server.call(
                "POST", "/v1/workers/w/register", said | {"worker_instance_id": f"i{number}"}
            )
            assert status == 200, told
        records = request("GET", '/v1/workers?question={"ListWorkers":{}}', None, RECORDS)
        for message in (request("GET", "/v1/workers"), records):
            with attacked(server) as attack, unread(server, message, 20):
                attack.endure(2)
            attack.check()
        seen, cursor = 0, ""
        while cursor is not None:
            _, page = server.call("GET", f"/v1/workers?cursor={cursor.replace(' ', '%20')}")
            seen, cursor = seen + len(page["workers"]), page["next_cursor"]
            assert len(page["workers"]) < 40
        assert seen == 300


@pytest.mark.timeout(180)
def test_waitpoints_with_long_messages_that_nobody_reads(tmp_path: Path, backend: Backend) -> None:
    with started(tmp_path, *backend.flags) as server:
        server.wait_until_ready()
        paths = [_waitpoints(server, 200) for _ in range(2)]
        record = f'{paths[0]}/pending-waitpoints?question={{"ListWaitpoints":{{"limit":1000}}}}'
        for message in (
            request("GET", "/v1/waitpoints?limit=1000"),
            request("GET", '/v1/waitpoints?question={"ReadInbox":{"limit":1000}}', None, RECORDS),
            request("GET", f"{paths[0]}/pending-waitpoints?limit=1000"),
            request("GET", record, None, RECORDS),
            request("GET", f"{paths[0]}/detail"),
        ):
            with attacked(server) as attack, unread(server, message, 20):
                attack.endure(1)
            attack.check()
        seen, cursor = 0, ""
        while cursor is not None:
            _, page = server.call("GET", f"/v1/waitpoints?limit=1000&cursor={cursor}")
            seen, cursor = seen + len(page["waitpoints"]), page["next_cursor"]
            assert len(page["waitpoints"]) < 100
        assert seen == 400
        found = [""]
        while found[-1:] != [None]:
            _, listed = server.call("GET", f"{paths[0]}/pending-waitpoints?limit=1000&after={found[-1]}")
            found += [each["waitpoint_id"] for each in listed] or [None]
        assert len(set(found)) == 202
        _, whole = server.call("GET", f"{paths[0]}/detail")
        assert len(whole["waitpoints"]) == 200
        assert 0 < sum("details" in each for each in whole["waitpoints"]) < 20


def _waitpoints(server: Process, count: int) -> str:
    """Open waitpoints that say a lot; returns the path of their execution."""
    path = f"/v1/executions/{server.submit()}"
    asked = {"worker_instance_id": "w-a", "lanes": ["default"], "lease_ttl_ms": 3_600_000}
    _, claimed = server.call("POST", "/v1/workers/w/tasks", asked)
    said = {
        "fence": claimed["tasks"][0]["fence"],
        "expires_in_ms": 3_600_000,
        "message": "m" * 4_000,
        "details": {"text": "d" * 16_000},
    }
    for number in range(count):
        status, told = server.call("POST", f"{path}/waitpoints", said | {"waitpoint_key": f"k{number}"})
        assert status == 200, told
    return path
