"""A process that opens a database when it is told to: `python -m support.chaos.opener <database>`."""

from __future__ import annotations

import asyncio
import sys

from flowfabric.storage.sqlite import SqliteStore
from support.chaos.stream import say


async def main(path: str) -> None:
    """Open, say so, and close."""
    say(fact="ready")
    await asyncio.to_thread(sys.stdin.readline)
    store = await SqliteStore.open(path)
    say(fact="opened")
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
