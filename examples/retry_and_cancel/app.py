"""What happens when a task fails, may never succeed, or is no longer wanted.

Run it with `python examples/retry_and_cancel/app.py`.
"""

import asyncio
import os

from flowfabric import Backoff, Context, FlowFabric, Permanent, Retry, TaskCancelled, TaskFailed

app = FlowFabric(os.environ.get("FF_STORE", "retries.db"))

cleaned_up: list[str] = []


@app.task(retries=5, backoff=Backoff("10ms", most="1s"))
async def fetch(ctx: Context, url: str) -> str:
    """Fetch a page from a host that is busy at first."""
    if url.startswith("ftp:"):
        raise Permanent("only http is spoken here")  # no retry can help
    if ctx.attempt == 0:
        raise ConnectionError("refused")  # any exception: the policy decides
    if ctx.attempt == 1:
        raise Retry("429", after="20ms")  # the host says how long to wait
    return f"{url} after {ctx.attempt + 1} attempts"


@app.task
async def watch(ctx: Context, url: str) -> None:
    """Work for as long as it takes, or until nobody wants it any more."""
    try:
        await ctx.progress(1, f"watching {url}")
        await asyncio.Event().wait()
    finally:
        cleaned_up.append(url)


async def main() -> None:
    """Show all three."""
    async with app.worker(lease_ttl="3s"):
        run = await app.submit(fetch, "http://example.org")
        print(await run.result(timeout="30s"))

        run = await app.submit(fetch, "ftp://example.org")
        try:
            await run.result(timeout="30s")
        except TaskFailed as failure:
            print(f"failed: {failure.reason}")

        endless = await app.submit(watch, "http://example.org")
        async for _ in endless.stream():
            break  # its attempt has begun
        await endless.cancel("not wanted any more")
        try:
            await endless.result(timeout="30s")
        except TaskCancelled as end:
            print(f"cancelled: {end.reason}")
    print(f"cleaned up: {cleaned_up}")


if __name__ == "__main__":
    asyncio.run(main())
