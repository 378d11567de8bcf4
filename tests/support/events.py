"""What the tests of live events share."""

from typing import Any
from urllib.parse import quote

from support.clock import ManualClock
from support.driver import Driver
from support.server import Api
from support.sse import Message, listen


def driver(api: Api) -> Driver:
    return Driver(api.store, ManualClock())


def path(execution_id: str) -> str:
    return f"/v1/executions/{quote(execution_id)}/events"


def brief(messages: list[Message]) -> list[tuple[str, Any]]:
    """Say what messages are about."""
    keys = {
        "state": "to",
        "attempt": "attempt_type",
        "frame": "payload",
        "progress": "pct",
        "end": "public_state",
        "superseded": "kept_steps",
    }
    return [(message.event, message.data[keys[message.event]]) for message in messages]


async def told(api: Api, count: int) -> list[str]:
    """Return the ids of the first messages of the feed."""
    async with listen(api, "/v1/feed", "0") as feed:
        return [message.id for message in await feed.take(count)]
