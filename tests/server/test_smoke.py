from __future__ import annotations

from typing import Any


async def test_a_server_answers(api: Any) -> None:
    status, body, headers, _ = await api.get("/healthz")
    assert (status, body) == (200, {"status": "ok"})
    assert headers["x-request-id"]
